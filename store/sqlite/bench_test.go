package sqlite_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

func open(tb testing.TB, cfg sqlite.Config) *sqlite.Store {
	tb.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(tb.TempDir(), "troupe.db")
	}
	s, err := sqlite.Open(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

func noop(n int) []messages.Execution {
	out := make([]messages.Execution, n)
	for i := range out {
		out[i] = messages.Execution{
			ID: messages.NewExecutionID(), Action: "core.noop", Version: "1.0.0", Pool: "go", Priority: messages.PriorityNormal,
			Parameters: json.RawMessage(`{"n":1}`), Timeout: time.Minute,
		}
	}
	return out
}

// cpu returns the processor time of this process. Other load affects it less than the elapsed time.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSubmitBatch submits in batches of 1,000; one operation is one execution.
func BenchmarkSubmitBatch(b *testing.B) {
	s := open(b, sqlite.Config{})
	b.ResetTimer()
	for done := 0; done < b.N; done += 1000 {
		_, err := s.Submit(b.Context(), noop(min(1000, b.N-done)))
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "exec/s")
}

// BenchmarkSubmitOneByOne has 16 callers that submit single executions.
func BenchmarkSubmitOneByOne(b *testing.B) {
	s := open(b, sqlite.Config{})
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Submit(b.Context(), noop(1)); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "exec/s")
}

// BenchmarkWorkOff places, claims and finishes stored executions in groups. One operation is one execution.
func BenchmarkWorkOff(b *testing.B) {
	for _, group := range []int{128, 500} {
		b.Run(fmt.Sprint("group=", group), func(b *testing.B) {
			s := open(b, sqlite.Config{})
			for done := 0; done < b.N; done += 1000 {
				_, err := s.Submit(b.Context(), noop(min(1000, b.N-done)))
				require.NoError(b, err)
			}
			worker := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "go"}
			b.ResetTimer()
			before := cpu()
			for done := 0; done < b.N; {
				page, err := s.Due(b.Context(), store.DueQuery{Pool: "go", Limit: group, Heads: group})
				require.NoError(b, err)
				require.NotEmpty(b, page.Candidates)
				done += len(page.Candidates)
				var place, claim, finish []store.Change
				for _, c := range page.Candidates {
					place = append(place, &store.Place{ID: c.ID, Attempt: c.Attempt, Worker: worker, WorkerID: "n/go/0", PlacedBy: worker.Incarnation, ClaimWithin: time.Minute})
					claim = append(claim, &store.Claim{ID: c.ID, Attempt: c.Attempt + 1, Worker: worker, Generation: 1})
					finish = append(finish, &store.Finish{ID: c.ID, Attempt: c.Attempt + 1, Outcome: messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`{}`)}})
				}
				for _, changes := range [][]store.Change{place, claim, finish} {
					out, err := s.Apply(b.Context(), changes)
					require.NoError(b, err)
					for i := range out {
						if out[i].Verdict != store.Applied {
							b.Fatal(out[i])
						}
					}
				}
			}
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/exec")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "exec/s")
		})
	}
}

// BenchmarkList reads a page of 100 of a million stored executions, by each filter alone.
func BenchmarkList(b *testing.B) {
	s := open(b, sqlite.Config{})
	sqlite.Grow(b, s, 1_000_000)
	for name, f := range map[string]store.Filter{
		"all": {}, "middle": {Before: 500_000}, "action": {Actions: []string{"core.a3"}}, "pool": {Pools: []string{"pool2"}}, "session": {Sessions: []string{"s5"}},
		"worker": {Workers: []string{"n/pool/7"}}, "label": {Labels: [][2]string{{"k", "v50"}}}, "completed": {Statuses: []messages.Status{messages.Completed}},
		"requested": {Statuses: []messages.Status{messages.Requested}}, "running": {Statuses: []messages.Status{messages.Running}},
		"cancelled": {Statuses: []messages.Status{messages.Cancelled}}, "failed": {Statuses: []messages.Status{messages.Failed}},
		"open":    {Statuses: []messages.Status{messages.Requested, messages.Scheduled, messages.Running, messages.Cancelling}},
		"unknown": {Actions: []string{"core.none"}}, "failed of pool": {Pools: []string{"pool0"}, Statuses: []messages.Status{messages.Failed}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := s.List(b.Context(), f)
				require.NoError(b, err)
			}
		})
	}
	b.Run("purge nothing", func(b *testing.B) {
		for b.Loop() {
			_, err := s.Purge(b.Context(), store.Purge{FinishedBefore: time.UnixMicro(1800000000000000), Limit: 1000})
			require.NoError(b, err)
		}
	})
	b.Run("depths", func(b *testing.B) {
		for b.Loop() {
			_, err := s.Depths(b.Context())
			require.NoError(b, err)
		}
	})
}

// BenchmarkDue looks for due executions if 50,000 wait in one session, 1,000 sessions wait, and 50,000 wait without
// one.
func BenchmarkDue(b *testing.B) {
	s := open(b, sqlite.Config{})
	for range 5 {
		for _, session := range []string{"", "deep"} {
			batch := noop(10_000)
			for i := range batch {
				batch[i].Session = session
				if session != "" {
					batch[i].Affinity = messages.AffinityStrict
				}
			}
			_, err := s.Submit(b.Context(), batch)
			require.NoError(b, err)
		}
	}
	wide := noop(1000)
	for i := range wide {
		wide[i].Session, wide[i].Affinity = fmt.Sprint("wide", i), messages.AffinityStrict
	}
	_, err := s.Submit(b.Context(), wide)
	require.NoError(b, err)
	for name, q := range map[string]store.DueQuery{"plain": {Limit: 256}, "heads": {Heads: 256}, "both": {Limit: 256, Heads: 256}} {
		q.Pool = "go"
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				page, err := s.Due(b.Context(), q)
				require.NoError(b, err)
				require.NotEmpty(b, page.Candidates)
			}
		})
	}
}

// BenchmarkOpen opens and closes a store that exists.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "troupe.db")
	for b.Loop() {
		s, err := sqlite.Open(b.Context(), sqlite.Config{Path: path})
		require.NoError(b, err)
		require.NoError(b, s.Close())
	}
}

// BenchmarkWalk measures lists that find nothing: each looks at as many executions as a page may.
func BenchmarkWalk(b *testing.B) {
	const rows = 150_000
	s := open(b, sqlite.Config{})
	sqlite.Grow(b, s, rows)
	for name, f := range consoleReads(rows) {
		page, err := s.List(b.Context(), f)
		require.NoError(b, err)
		if page.Searched.Walked < store.ListWalk {
			continue
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := s.List(b.Context(), f)
				require.NoError(b, err)
			}
		})
	}
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			_, err := s.CountRequested(b.Context(), store.CountQuery{From: grownAt(0), To: grownAt(rows), Most: store.ListWalk})
			require.NoError(b, err)
		}
	})
}
