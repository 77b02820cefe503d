package operate

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/clock"
)

// rowsOf is a store that has the workers of other nodes, by a clock of its own.
type rowsOf struct {
	store.Store
	now  time.Time
	rows []store.Worker
}

func (r *rowsOf) Now(context.Context) (time.Time, error) { return r.now, nil }

func (r *rowsOf) ListWorkers(context.Context, string) ([]store.Worker, error) { return r.rows, nil }

// Heartbeats of another node that are ahead of the store's clock are told once for each node, and its workers are as if fresh.
func TestAnotherNodesHeartbeatsFromTheFuture(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	far, near := messages.NewIncarnation(), messages.NewIncarnation()
	now := time.Now()
	row := func(inc messages.Incarnation, slot messages.Slot, ahead time.Duration) store.Worker {
		return store.Worker{Key: messages.WorkerKey{Incarnation: inc, Pool: "p", Slot: slot}, Active: true, State: "ready",
			Beat: now.Add(ahead), BeatEvery: 10 * time.Second}
	}
	cfg := Config{Logger: hclog.New(&hclog.LoggerOptions{Output: &log}), Clock: &clock.Clock{}}
	cfg.Grades = Grades{health.Thresholds{Heartbeat: health.Limit(10*time.Second, 3)}, 3}
	remote := &RemoteWorkers{cfg: &cfg}
	look := func(rows ...store.Worker) string {
		log.Reset()
		cfg.Store = &rowsOf{now: now, rows: rows}
		served, err := remote.Served(t.Context())
		require.NoError(t, err)
		require.Contains(t, served["p"], far)
		return log.String()
	}
	require.Empty(t, look(row(far, 0, 0), row(near, 0, 0)))
	text := look(row(far, 0, 2*time.Hour), row(far, 1, time.Hour), row(near, 0, 0))
	require.Equal(t, 1, strings.Count(text, "\n"), text)
	require.Contains(t, text, "[WARN]")
	require.Regexp(t, "Worker heartbeat is from the future; it counts as fresh: incarnation="+far.String()+" ahead=(2h|1h59m)", text)
	require.Empty(t, look(row(far, 0, 2*time.Hour), row(near, 0, 0)), "it is known")
	require.Empty(t, look(row(far, 0, 0), row(near, 0, 0)))
	require.Contains(t, look(row(far, 0, time.Hour)), "incarnation="+far.String(), "it has been well in between")
}
