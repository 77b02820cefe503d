package pgtx_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

// Every query of the quick reference runs, and returns rows in a store with executions of every kind.
func TestQuickReference(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/quick-reference.md")
	require.NoError(t, err)
	blocks := sqlBlock.FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(blocks), 15)
	h := newHouse(t)
	chain := fillStore(t, h)
	require.Eventually(t, func() bool { // heartbeats, transitions and the journal are written with a delay
		return h.count(t, "SELECT count(*) FROM healthy_workers") > 0 && h.count(t, "SELECT count(*) FROM worker_event") > 0 &&
			h.count(t, "SELECT count(*) FROM journal") > 0
	}, 30*time.Second, 50*time.Millisecond)
	for _, b := range blocks {
		query := strings.ReplaceAll(b[1], ":'id'", "'"+chain.String()+"'")
		rows, err := h.db.Query(t.Context(), query)
		require.NoError(t, err, query)
		found, err := pgx.CollectRows(rows, pgx.RowToMap)
		require.NoError(t, err, query)
		require.NotEmpty(t, found, "it finds nothing:\n%s", query)
		if strings.Contains(query, "r.original = first.id") {
			require.Len(t, found, 2, "the chain")
		}
	}
}

// fillStore leaves executions of every kind in the house's store, and returns the last execution of a chain of two.
func fillStore(t *testing.T, h *house) troupe.ExecutionID {
	t.Helper()
	ctx, one := t.Context(), 1
	submit := func(s troupe.Submission) troupe.Execution {
		e, err := h.node.Submit(ctx, s)
		require.NoError(t, err)
		return e
	}
	end := func(id troupe.ExecutionID) troupe.Execution {
		e, err := h.node.Wait(ctx, id)
		require.NoError(t, err)
		require.True(t, e.Status.Terminal())
		return e
	}
	failed := end(submit(troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "fail"}, MaxRetries: &one}).ID)
	require.Equal(t, troupe.Failed, failed.Status)
	last := end(failed.RetriedAs)
	require.Equal(t, troupe.Completed, last.Status)
	submit(troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "later"}, RunAt: time.Now().Add(time.Hour)})
	held := submit(troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "hold"}})
	require.Eventually(t, func() bool {
		e, err := h.node.Get(ctx, held.ID)
		return err == nil && e.Status == troupe.Running
	}, 30*time.Second, 10*time.Millisecond)
	_, err := h.db.Exec(ctx, "INSERT INTO submission (action) VALUES ('demo.nothing')")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return h.count(t, "SELECT count(*) FROM submission WHERE state = 'refused'") == 1
	}, 30*time.Second, 10*time.Millisecond)
	s, err := postgres.Open(ctx, postgres.Config{URL: h.database, Conns: 1})
	require.NoError(t, err)
	_, err = s.SaveDeadLetter(ctx, store.DeadLetter{At: time.Now(), Execution: last.ID, Attempt: 1, Reason: "expired", Resolution: "stale",
		Headers: json.RawMessage("{}")})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return last.ID
}

// act is a handler. Its parameter name says whether it fails at first, holds until the node stops, or greets.
func act(ctx context.Context, t *troupe.Task) (any, error) {
	var p struct {
		Name string `json:"name"`
	}
	if err := t.Bind(&p); err != nil {
		return nil, err
	}
	again := true
	switch {
	case p.Name == "fail" && t.RetryCount == 0:
		return nil, &troupe.Error{Code: "busy", Message: "try again", Retriable: &again}
	case p.Name == "hold":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return greet(ctx, t)
}
