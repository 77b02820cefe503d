package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/test/servers"
)

// BenchmarkRoundTrip makes 1, 4, 16 and 64 callers submit no-op executions to a node with the embedded store. Each caller waits
// for an outcome before its next submission: by the Go API, and over HTTP with wait_seconds.
func BenchmarkRoundTrip(b *testing.B) {
	program := sync.OnceValue(func() string { return binary(b) })
	b.Run("Go", func(b *testing.B) { roundTrips(b, nil, nil, goTrips(nil, nil)) })
	b.Run("HTTP", func(b *testing.B) {
		roundTrips(b, nil, nil, httpTrips(nil, func(b *testing.B) *member { return members(b, program(), 1)[0] }))
	})
}

// BenchmarkFullRoundTrip is BenchmarkRoundTrip on Postgres only, and with RabbitMQ, where each outcome has a notice. Accepting is
// the rate of 16 callers on Postgres only that do not wait.
func BenchmarkFullRoundTrip(b *testing.B) {
	f := startFull(b)
	program := sync.OnceValue(func() string { return binary(b) })
	commit := func(b *testing.B) { bareCommit(b, f) }
	b.Run("Accepting", func(b *testing.B) { accepting(b, f) })
	b.Run("Postgres", func(b *testing.B) { roundTrips(b, f, commit, goTrips(f, directly)) })
	b.Run("RabbitMQ", func(b *testing.B) { roundTrips(b, f, commit, goTrips(f, tellingDefaults)) })
	b.Run("PostgresHTTP", func(b *testing.B) {
		roundTrips(b, f, commit, httpTrips(f, func(b *testing.B) *member { return f.alone(b, program()) }))
	})
	b.Run("RabbitMQHTTP", func(b *testing.B) {
		roundTrips(b, f, commit, httpTrips(f, func(b *testing.B) *member { return f.cluster(b, program(), 1)[0] }))
	})
}

// trips is a node for round trips, and its CPU time so far.
type trips struct {
	call  func() (messages.Status, error)
	usage func() processors
	end   func()
}

// goTrips has callers in the node's process.
func goTrips(f *full, change func(*node.Config)) func(*testing.B) trips {
	return func(b *testing.B) trips {
		n := start(b, f.on(b, change))
		return trips{usage: f.usage, end: func() {}, call: func() (messages.Status, error) {
			_, awaited, err := n.Backend().SubmitAwaited(context.Background(), requests("core.noop", 1, "")[0])
			if err != nil {
				return 0, err
			}
			defer awaited.Leave()
			e, err := awaited.Wait(context.Background())
			return e.Status, err
		}}
	}
}

// httpTrips has callers in another process than the node, which is the real program.
func httpTrips(f *full, open func(*testing.B) *member) func(*testing.B) trips {
	return func(b *testing.B) trips {
		m := open(b)
		return trips{usage: func() processors { return f.spent([]*member{m}) }, end: m.end, call: func() (messages.Status, error) {
			v, err := m.client.Submit(context.Background(), requests("core.noop", 1, "")[0], time.Minute)
			return v.Status, err
		}}
	}
}

// roundTrips measures each number of callers. commit, if set, measures a bare commit beside one caller.
func roundTrips(b *testing.B, f *full, commit func(*testing.B), open func(*testing.B) trips) {
	for _, row := range []struct{ callers, count int }{{1, 1000}, {4, 3000}, {16, 8000}, {64, 12_800}} {
		callers, count := row.callers, row.count
		b.Run(fmt.Sprint("Callers", callers), func(b *testing.B) {
			for range b.N {
				roundTrip(b, f, callers, scaled(count)/callers, open(b))
				switch {
				case callers > 1:
				case commit != nil:
					commit(b)
				default:
					bareSync(b)
				}
			}
		})
	}
}

// roundTrip makes each caller do a number of round trips.
func roundTrip(b *testing.B, f *full, callers, each int, t trips) {
	defer t.end()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	before, began := t.usage(), time.Now()
	for range callers {
		all.Go(func() {
			mine := make([]time.Duration, 0, each)
			for range each {
				asked := time.Now()
				if status, err := t.call(); err != nil || status != messages.Completed {
					b.Errorf("an execution is %s: %v", status, err)
					return
				}
				mine = append(mine, time.Since(asked))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
	b.ReportMetric(float64(len(took))/time.Since(began).Seconds(), "executions/s")
	f.report(b, before, t.usage(), len(took))
	percentiles(b, "trip", took, time.Millisecond, "ms")
}

// accepting makes 16 callers submit while the node runs their executions, and reports how many are accepted a second.
func accepting(b *testing.B, f *full) {
	for range b.N {
		n := start(b, f.on(b, directly))
		began := time.Now()
		bySixteen(b, func() error {
			_, err := n.Backend().Submit(context.Background(), requests("core.noop", 1, ""))
			return err
		})
		b.ReportMetric(float64(callersCount())/time.Since(began).Seconds(), "executions/s")
		await(b, "idle", idle(n))
	}
}

// bareCommits is the number of commits for the median.
const bareCommits = 200

// bareCommit reports the median time of a transaction that inserts one row into the newest database.
func bareCommit(b *testing.B, f *full) {
	took, err := servers.Commits(f.newest(), bareCommits)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(median(took))/float64(time.Millisecond), "commit-p50-ms")
}

// bareSync reports the median time to append a page to a file and to write it to the disk. A commit of the embedded store waits
// for that.
func bareSync(b *testing.B) {
	file, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	took, page := make([]time.Duration, bareCommits), make([]byte, 4096)
	for i := range took {
		began := time.Now()
		if _, err := file.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(began)
	}
	b.ReportMetric(float64(median(took))/float64(time.Millisecond), "commit-p50-ms")
}
