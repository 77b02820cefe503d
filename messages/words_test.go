package messages_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func TestAlternatives(t *testing.T) {
	t.Parallel()
	for want, words := range map[string][]messages.Code{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b, c or d": {"a", "b", "c", "d"}} {
		require.Equal(t, want, messages.Alternatives(words))
	}
}
