package postgres_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

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

// cpu returns the processor time of this process, without the server's.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverCPU returns the processor time of the server's processes for this database, if the server runs on this machine.
func (d *bench) serverCPU(b *testing.B) time.Duration {
	c, err := pgx.Connect(b.Context(), d.url)
	require.NoError(b, err)
	defer c.Close(b.Context())
	rows, err := c.Query(b.Context(), "SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
	require.NoError(b, err)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(b, err)
	var total time.Duration
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it runs elsewhere or has ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		for _, f := range fields[11:13] { // user and system time, in hundredths of a second
			n, err := strconv.Atoi(f)
			require.NoError(b, err)
			total += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return total
}

func report(b *testing.B, d *bench, before time.Duration) {
	b.StopTimer()
	b.ReportMetric(float64(d.serverCPU(b).Microseconds())/float64(b.N), "server-µs/exec")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "exec/s")
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/exec")
}

// joined returns the key of a live worker.
func joined(tb testing.TB, s store.Store) messages.WorkerKey {
	key := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "go"}
	require.NoError(tb, s.Join(tb.Context(), store.Node{Incarnation: key.Incarnation, Name: "n"}, time.Hour))
	return key
}

// BenchmarkSubmitBatch submits in batches. One operation is one execution.
func BenchmarkSubmitBatch(b *testing.B) {
	for _, size := range []int{11, 100, 1000, 10_000} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
			d := newBench(b)
			s := d.open(b, postgres.Config{})
			b.ResetTimer()
			before := cpu()
			for done := 0; done < b.N; done += size {
				_, err := s.Submit(b.Context(), noop(min(size, b.N-done)))
				require.NoError(b, err)
			}
			report(b, d, before)
		})
	}
}

// BenchmarkSubmitOneByOne has 16 callers that submit single executions.
func BenchmarkSubmitOneByOne(b *testing.B) {
	d := newBench(b)
	s := d.open(b, postgres.Config{})
	b.SetParallelism(8)
	b.ResetTimer()
	before := cpu()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Submit(b.Context(), noop(1)); err != nil {
				b.Error(err)
			}
		}
	})
	report(b, d, before)
}

// BenchmarkWorkOff places, claims and finishes stored executions in groups. One operation is one execution.
func BenchmarkWorkOff(b *testing.B) {
	for _, group := range []int{20, 128, 500} {
		b.Run(fmt.Sprint("group=", group), func(b *testing.B) {
			d := newBench(b)
			s := d.open(b, postgres.Config{})
			for done := 0; done < b.N; done += 1000 {
				_, err := s.Submit(b.Context(), noop(min(1000, b.N-done)))
				require.NoError(b, err)
			}
			worker := joined(b, s)
			b.ResetTimer()
			before := cpu()
			for done := 0; done < b.N; {
				done += workOff(b, s, worker, group)
			}
			report(b, d, before)
		})
	}
}

// workOff takes one group from waiting to completed and returns its size.
func workOff(tb testing.TB, s store.Store, worker messages.WorkerKey, group int) int {
	page, err := s.Due(tb.Context(), store.DueQuery{Pool: "go", Limit: group, Heads: group})
	require.NoError(tb, err)
	require.NotEmpty(tb, page.Candidates)
	var place, claim, finish []store.Change
	for _, c := range page.Candidates {
		place = append(place, &store.Place{ID: c.ID, Attempt: c.Attempt, Worker: worker, WorkerID: "n/go/0", PlacedBy: worker.Incarnation, ClaimWithin: time.Minute})
		claim = append(claim, &store.Claim{ID: c.ID, Attempt: c.Attempt + 1, Worker: worker, Generation: 1})
		finish = append(finish, &store.Finish{ID: c.ID, Attempt: c.Attempt + 1, Outcome: messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`{}`)}})
	}
	for _, changes := range [][]store.Change{place, claim, finish} {
		out, err := s.Apply(tb.Context(), changes)
		require.NoError(tb, err)
		for i := range out {
			require.Equal(tb, store.Applied, out[i].Verdict, out[i].Err)
		}
	}
	return len(page.Candidates)
}

// BenchmarkWhole submits in batches of 1,000 while submitted executions are worked off in groups of 500. One operation
// is one execution.
func BenchmarkWhole(b *testing.B) {
	d := newBench(b)
	s := d.open(b, postgres.Config{})
	worker := joined(b, s)
	submitted := make(chan int, 8)
	b.ResetTimer()
	before := cpu()
	go func() {
		defer close(submitted)
		for done := 0; done < b.N; done += 1000 {
			n := min(1000, b.N-done)
			if _, err := s.Submit(b.Context(), noop(n)); err != nil {
				b.Error(err)
				return
			}
			submitted <- n
		}
	}()
	waiting := 0
	for n := range submitted {
		for waiting += n; waiting > 0; {
			waiting -= workOff(b, s, worker, 500)
		}
	}
	report(b, d, before)
}

// BenchmarkAlone has one caller whose executions are stored with their claim and then finished: what a caller that waits waits for in the
// store, without a node. A bare commit of one row on another connection stands beside each.
func BenchmarkAlone(b *testing.B) {
	d := newBench(b)
	s := d.open(b, postgres.Config{})
	worker := joined(b, s)
	db, err := pgx.Connect(b.Context(), d.url)
	require.NoError(b, err)
	defer db.Close(b.Context())
	_, err = db.Exec(b.Context(), "CREATE TABLE bare (n bigint)")
	require.NoError(b, err)
	took := map[string][]time.Duration{}
	timed := func(name string, do func()) {
		began := time.Now()
		do()
		took[name] = append(took[name], time.Since(began))
	}
	b.ResetTimer()
	before := cpu()
	for range b.N {
		e := noop(1)
		timed("submit", func() {
			out, err := s.SubmitPlaced(b.Context(), e, []*store.Place{{ID: e[0].ID, Worker: worker, WorkerID: "n/go/0", PlacedBy: worker.Incarnation, ClaimWithin: time.Minute, Generation: 1}})
			require.NoError(b, err)
			require.Equal(b, messages.Running, out[0].Execution.Status)
		})
		timed("finish", func() {
			out, err := s.Apply(b.Context(), []store.Change{&store.Finish{ID: e[0].ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`{}`)}}})
			require.NoError(b, err)
			require.Equal(b, store.Applied, out[0].Verdict, out[0].Err)
		})
		timed("commit", func() {
			_, err := db.Exec(b.Context(), "INSERT INTO bare VALUES (1)")
			require.NoError(b, err)
		})
	}
	report(b, d, before)
	for name, all := range took {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), name+"-p50-µs")
	}
}
