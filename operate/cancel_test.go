package operate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// A caller hears what became of its cancel: what the store did, also that it did nothing because the execution has ended, or that it refused.
func TestACallerHearsWhatBecameOfItsCancel(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	record := a.cfg.Record
	verdict := func(r store.Result) {
		a.cfg.Record = func(context.Context, string, []actors.Item) ([]store.Result, error) { return []store.Result{r}, nil }
	}
	e := c.waiting(t, "shell")

	verdict(store.Result{Verdict: store.Refused, Err: store.ErrInvalid})
	_, err := a.Cancel(t.Context(), e.ID, "ann")
	var p *messages.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, messages.CodeRefused, p.Code)
	require.Equal(t, "execution "+e.ID.String()+" is not cancelled, it is requested as before: the store refuses the change: "+store.ErrInvalid.Error(), p.Message)

	verdict(store.Result{Verdict: store.Blocked, Err: store.ErrBlocked})
	_, err = a.Cancel(t.Context(), e.ID, "ann")
	require.ErrorIs(t, err, store.ErrUnavailable)

	a.cfg.Record = record
	for range 2 { // the second finds that it has ended
		ended, err := a.Cancel(t.Context(), e.ID, "ann")
		require.NoError(t, err)
		require.Equal(t, messages.Cancelled, ended.Status)
	}
	_, err = a.Cancel(t.Context(), messages.NewExecutionID(), "ann")
	require.ErrorAs(t, err, &p)
	require.Equal(t, messages.CodeNotFound, p.Code)
}
