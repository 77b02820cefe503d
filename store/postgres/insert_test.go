package postgres_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store/postgres"
)

// later returns a time that Postgres stores without loss.
func later(d time.Duration) time.Time { return time.Now().Add(d).UTC().Truncate(time.Microsecond) }

// asked sets the values of a submission, by their columns.
var asked = map[string]func(*messages.Execution){
	"id":              func(*messages.Execution) {}, // every execution has its own
	"action":          func(e *messages.Execution) { e.Action = "core.echo" },
	"version":         func(e *messages.Execution) { e.Version = "2.0.0" },
	"affinity":        func(e *messages.Execution) { e.Affinity = messages.AffinityHint },
	"labels":          func(e *messages.Execution) { e.Labels = map[string]string{"team": "a", `"`: "\n"} },
	"created_by":      func(e *messages.Execution) { e.CreatedBy = "ann" },
	"trace":           func(e *messages.Execution) { e.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
	"idempotency_key": func(e *messages.Execution) { e.IdempotencyKey = e.ID.String() },
	"request_hash":    func(e *messages.Execution) { e.RequestHash = []byte{0, 1, 255} },
	"timeout":         func(e *messages.Execution) { e.Timeout = 90 * time.Second },
	"stall_timeout":   func(e *messages.Execution) { e.StallTimeout = 1500 * time.Microsecond },
	"wait_for_worker": func(e *messages.Execution) { e.WaitForWorker = true },
	"idempotent":      func(e *messages.Execution) { e.Idempotent = true },
	"notify":          func(e *messages.Execution) { e.Notify = true },
	"may_repeat":      func(e *messages.Execution) { e.MayRepeat = true },
	"max_retries":     func(e *messages.Execution) { e.MaxRetries = 3 },
	"retry_count":     func(e *messages.Execution) { e.RetryCount = 2 },
	"retry_reason":    func(e *messages.Execution) { e.RetryReason = "worker_lost" },
	"original":        func(e *messages.Execution) { e.Original = messages.NewExecutionID() },
	"queue_deadline":  func(e *messages.Execution) { e.QueueDeadline = later(time.Minute) },
	"worker_deadline": func(e *messages.Execution) { e.WorkerDeadline = later(2 * time.Minute) },
	"parameters":      func(e *messages.Execution) { e.Parameters = json.RawMessage(`{"n":2}`) },
	"priority":        func(e *messages.Execution) { e.Priority = messages.PriorityMax },
	"pool":            func(e *messages.Execution) { e.Pool = "python" },
	"session":         func(e *messages.Execution) { e.Session = "s" },
	"run_at":          func(e *messages.Execution) { e.RunAt = later(time.Hour) },
}

// If the rows of a group are alike, their common columns are inserted as one value each. A row that differs from the
// others in any column keeps its own value.
func TestEachOfAGroupKeepsWhatItAskedFor(t *testing.T) {
	t.Parallel()
	s := newBench(t).open(t, postgres.Config{})
	kept := func(t *testing.T, group []messages.Execution) {
		stored, err := s.Submit(t.Context(), group)
		require.NoError(t, err)
		for i := range group {
			found, err := s.Get(t.Context(), group[i].ID)
			require.NoError(t, err)
			require.Equal(t, stored[i].Execution, found)
			wanted := group[i]
			wanted.Seq, wanted.Status, wanted.RequestedAt = found.Seq, messages.Requested, found.RequestedAt
			if wanted.RunAt.IsZero() {
				wanted.RunAt = found.RequestedAt
			}
			require.Equal(t, wanted, found)
		}
	}
	for column, own := range postgres.FreshColumns() {
		ask, known := asked[column]
		require.True(t, known, "say how %s differs", column)
		t.Run(column, func(t *testing.T) {
			group := noop(3)
			require.True(t, postgres.Alike(group))
			ask(&group[1])
			require.Equal(t, own, postgres.Alike(group))
			kept(t, group)
		})
	}
	t.Run("all of them in common", func(t *testing.T) {
		group := noop(3)
		for i := range group {
			for column, ask := range asked {
				if column != "idempotency_key" { // one execution has it
					ask(&group[i])
				}
			}
			group[i].Original, group[i].RunAt = group[0].Original, group[0].RunAt
			group[i].QueueDeadline, group[i].WorkerDeadline = group[0].QueueDeadline, group[0].WorkerDeadline
		}
		require.True(t, postgres.Alike(group))
		kept(t, group)
	})
}
