package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
)

// The statements and the decision use the same SteadyGap.
func TestTheStatementAndTheDecisionAgreeOnTheGap(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, membership.GapShare, store.SteadyGap)
}
