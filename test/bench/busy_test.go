package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/packs/corego"
)

// BenchmarkBusy measures how much of their time workers run, while more than enough waits for them, on the embedded store.
func BenchmarkBusy(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) { busyAll(b, nil, 1, nil) })
}

// BenchmarkFullBusy is BenchmarkBusy on Postgres alone and with RabbitMQ, for one node and for three.
func BenchmarkFullBusy(b *testing.B) {
	f := startFull(b)
	for _, nodes := range []int{1, 3} {
		b.Run(fmt.Sprintf("Postgres%d", nodes), func(b *testing.B) { busyAll(b, f, nodes, directly) })
		b.Run(fmt.Sprintf("RabbitMQ%d", nodes), func(b *testing.B) { busyAll(b, f, nodes, tellingDefaults) })
	}
}

// busyWorkers are the go workers of all nodes together.
const busyWorkers = 6

func busyAll(b *testing.B, f *full, nodes int, change func(*node.Config)) {
	for _, part := range []struct {
		name  string
		runs  time.Duration
		count int
	}{{"10ms", 10 * time.Millisecond, 6000}, {"100ms", 100 * time.Millisecond, 600}, {"1s", time.Second, 120}} {
		b.Run(part.name, func(b *testing.B) { busy(b, f, nodes, change, part.runs, scaled(part.count)) })
	}
}

// busy has the workers of some nodes run count executions of a time each, and reports the share of their time for which the
// handler ran: from the first start to the last one, up to which each worker has something to run. Before that each node
// has run some of the same.
func busy(b *testing.B, f *full, size int, change func(*node.Config), runs time.Duration, count int) {
	parameters := fmt.Sprintf(`{"seconds":%g}`, runs.Seconds())
	for range b.N {
		on := f.on(b, change)
		nodes, watches := make([]*node.Node, size), make([]spans, size)
		for i := range nodes {
			nodes[i] = start(b, func(c *node.Config) {
				if on != nil {
					on(c)
				}
				c.Name = fmt.Sprintf("bench%d", i)
				c.Workers = map[messages.Runtime]int{"go": busyWorkers / size}
				c.Handlers = map[string]messages.Handler{"core.sleep": watches[i].sleep}
			})
		}
		execute := func(n int) {
			if _, err := nodes[0].Backend().Submit(context.Background(), requests("core.sleep", n, parameters)); err != nil {
				b.Fatal(err)
			}
			await(b, "idle", idle(nodes[0]))
		}
		await(b, "one cluster", func() bool {
			execute(2 * busyWorkers)
			all := true
			for i := range watches {
				all = watches[i].forget() > 0 && all
			}
			return all
		})
		before := f.usage()
		execute(count)
		var all []span
		for i := range watches {
			all = append(all, watches[i].all...)
		}
		share, idled := busyShare(all, busyWorkers)
		b.ReportMetric(100*share, "busy-%")
		b.ReportMetric(float64(idled)/float64(time.Millisecond), "idle-ms/run")
		f.report(b, before, f.usage(), count)
	}
}

// spans are the times between which a handler ran.
type spans struct {
	mu  sync.Mutex
	all []span
}

type span struct{ from, to time.Time }

// sleep is core.sleep, and notes when.
func (s *spans) sleep(ctx context.Context, t *messages.Task) (any, error) {
	from := time.Now()
	result, err := corego.Sleep(ctx, t.Parameters)
	s.mu.Lock()
	s.all = append(s.all, span{from, time.Now()})
	s.mu.Unlock()
	return result, err
}

// forget drops what was noted, and returns how many runs that was.
func (s *spans) forget() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.all)
	s.all = nil
	return n
}

// busyShare is the share of their time for which so many workers ran something, until the last of the runs began, and how long
// a worker idled for each of them.
func busyShare(all []span, workers int) (share float64, idled time.Duration) {
	slices.SortFunc(all, func(a, b span) int { return a.from.Compare(b.from) })
	first, last := all[0].from, all[len(all)-1].from
	var ran time.Duration
	for _, r := range all {
		if r.to.After(last) {
			r.to = last
		}
		ran += r.to.Sub(r.from)
	}
	had := time.Duration(workers) * last.Sub(first)
	return ran.Seconds() / had.Seconds(), (had - ran) / time.Duration(len(all))
}
