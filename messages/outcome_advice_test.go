package messages_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// Each code that Troupe writes stands once in the table, with what it means and what to do. An action's own code has neither.
func TestEveryFailureHasAdvice(t *testing.T) {
	t.Parallel()
	seen := map[messages.Code]bool{}
	for _, f := range messages.Failures() {
		require.False(t, seen[f.Code], "%s stands twice", f.Code)
		seen[f.Code] = true
		require.NotEmpty(t, f.Meaning, "%s", f.Code)
		require.True(t, f.Code.Known(), "%s", f.Code)
	}
	require.Len(t, seen, 29)
	require.Empty(t, messages.Code("of_an_action").Advice())
	require.False(t, messages.Code("of_an_action").Known())
	require.False(t, messages.Code("").Known())
}
