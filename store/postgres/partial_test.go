package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
)

// A failure says whether earlier transactions of the call were made, or whether its own may have been made.
func TestAFailureSaysWhetherSomethingMayHaveBeenMade(t *testing.T) {
	t.Parallel()
	timeout := &pgconn.PgError{Code: codeCancelled}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nothing made": {asPartial(timeout, []*item{{}}), false},
		"a part made":  {asPartial(timeout, []*item{{done: true}, {}}), true},
		"its deadline": {undone([]*item{{done: true}}, context.DeadlineExceeded), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var part *store.PartError
			require.True(t, errors.As(mapError("apply", c.err), &part))
			require.Equal(t, c.want, part.Unsure)
		})
	}
}

// If its row is locked, a call that its group may have made has an unknown outcome.
func TestABlockedCallOfAFailedGroupIsInDoubt(t *testing.T) {
	t.Parallel()
	c := &applyCall{out: []store.Result{{Verdict: store.Applied}, {Verdict: store.Blocked, Err: store.ErrBlocked}}}
	c.markUnsure()
	require.True(t, unsureOf(c.err))
	c = &applyCall{out: []store.Result{{Verdict: store.Applied}}}
	c.markUnsure()
	require.NoError(t, c.err)
}
