package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// grow writes n executions directly into the tables, in four pools. The older half has ended, the newer half waits.
func grow(tb testing.TB, c *pgx.Conn, n int) {
	_, err := c.Exec(tb.Context(), fmt.Sprintf(`INSERT INTO request (seq, id, action, version, timeout, stall_timeout, wait_for_worker, idempotent, notify, may_repeat,
  max_retries, retry_count, requested_at, parameters)
 SELECT n, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'core.a' || n %% 10, '1', '60s', '0', false, false, false, false, 0, 0,
  now() - interval '1 day' + n * interval '1ms', '{}' FROM generate_series(1, %[1]d) n;
 INSERT INTO execution (id, seq, rank, unusual, status, attempt, last_change, priority, pool, worker_id, run_at, finished_at)
 SELECT id, seq, CASE WHEN seq > %[2]d THEN 4 END, CASE WHEN seq %% 20 = 0 AND seq <= %[2]d THEN 7 END,
  CASE WHEN seq > %[2]d THEN 1 WHEN seq %% 20 = 0 THEN 7 ELSE 6 END, 1, 4, 5, 'pool' || seq %% 4, 'n/p/' || seq %% 64, now(),
  CASE WHEN seq <= %[2]d THEN requested_at END FROM request; SELECT setval('execution_seq', %[1]d)`, n, n/2), pgx.QueryExecModeSimpleProtocol)
	require.NoError(tb, err)
}

// BenchmarkRead runs the queries of the node and of the page on 2,000,000 executions, half of which wait.
func BenchmarkRead(b *testing.B) {
	d := newBench(b)
	s := d.open(b, postgres.Config{})
	grow(b, d.connect(b, s.Schema()), 2_000_000)
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, f())
			}
		})
	}
	for name, f := range map[string]store.Filter{
		"all": {}, "middle": {Before: 500_000}, "action": {Actions: []string{"core.a3"}}, "pool": {Pools: []string{"pool2"}}, "no pool": {Pools: []string{"x"}}, "worker": {Workers: []string{"n/p/7"}},
		"requested": {Statuses: []messages.Status{messages.Requested}}, "failed": {Statuses: []messages.Status{messages.Failed}},
		"completed": {Statuses: []messages.Status{messages.Completed}}, "failed of pool": {Pools: []string{"pool0"}, Statuses: []messages.Status{messages.Failed}},
	} {
		run("list "+name, func() error { _, err := s.List(b.Context(), f); return err })
	}
	run("due", func() error {
		_, err := s.Due(b.Context(), store.DueQuery{Pool: "pool1", Limit: 256, Heads: 256})
		return err
	})
	run("depths", func() error { _, err := s.Depths(b.Context()); return err })
	for deadline := store.ClaimBy; deadline <= store.Orphaned; deadline++ {
		run(fmt.Sprint("overdue ", deadline), func() error {
			_, err := s.Overdue(b.Context(), store.OverdueQuery{Deadline: deadline, Limit: 100})
			return err
		})
	}
	run("purge nothing", func() error {
		_, err := s.Purge(b.Context(), store.Purge{FinishedBefore: time.Now().Add(-time.Hour * 48)})
		return err
	})
}
