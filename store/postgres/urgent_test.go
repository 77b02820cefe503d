package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// The first execution on a connection has the server parse nothing, whether it is stored with its claim or waits, nor has its outcome.
func TestANewConnectionKnowsWhatSomebodyWaitsFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	worker := joined(t, b.open(t, postgres.Config{Schema: "urgent"}))
	s := b.open(t, postgres.Config{Schema: "urgent", Conns: 1})
	known := func() string {
		text, err := s.Ask(t.Context(), `SELECT coalesce(string_agg(statement, '; ' ORDER BY statement), '') FROM pg_prepared_statements
 WHERE statement ~ '(INSERT INTO|UPDATE) execution '`)
		require.NoError(t, err)
		return text
	}
	atFirst := known()
	require.NotEmpty(t, atFirst)

	e := noop(2)
	for i := range e {
		e[i].ID = messages.NewExecutionID()
	}
	claim := &store.Place{ID: e[0].ID, Worker: worker, WorkerID: "n/go/0", PlacedBy: worker.Incarnation, ClaimWithin: time.Minute, Generation: 1}
	stored, err := s.SubmitPlaced(t.Context(), e[:1], []*store.Place{claim})
	require.NoError(t, err)
	require.Equal(t, messages.Running, stored[0].Execution.Status)
	_, err = s.Submit(t.Context(), e[1:])
	require.NoError(t, err)
	ended, err := s.Apply(t.Context(), []store.Change{&store.Finish{ID: e[0].ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed}}})
	require.NoError(t, err)
	require.Equal(t, store.Applied, ended[0].Verdict)
	require.Equal(t, atFirst, known())
}
