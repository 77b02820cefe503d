package sqlite_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync/atomic"
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

// BenchmarkWorkOff places, claims and finishes what was submitted before, in groups; one operation is one execution.
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
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "exec/s")
		})
	}
}

var _ atomic.Int64
