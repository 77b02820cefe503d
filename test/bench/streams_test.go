package bench

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The load of BenchmarkStreams: 125 executions of four changes each a second, and 20 readers, four of each of five filters.
const (
	streamRate    = 125
	streamReaders = 20
)

var streamLists = []string{"list", "list:status=failed", "list:status=running", "list:pool=go", "list:action=core.noop&limit=50"}

// BenchmarkStreams measures what 20 readers of live streams cost a node on the embedded store with 500 changes a second, in percent of a core:
// what its process uses with them, less what it uses for the same load without.
func BenchmarkStreams(b *testing.B) {
	program := binary(b)
	for range b.N {
		m := members(b, program, 1)[0]
		without := loaded(b, m)
		end, heard := readStreams(b, m)
		with := loaded(b, m)
		end()
		if heard() < streamReaders {
			b.Fatalf("%d events were read by %d readers", heard(), streamReaders)
		}
		b.ReportMetric(with-without, "streams-cpu-%")
		b.ReportMetric(without, "load-cpu-%")
		b.ReportMetric(float64(heard())/float64(scaled(30)), "events/s")
		m.end()
	}
}

// loaded submits executions at the rate for a while, and returns the share of a core that the node used meanwhile, in percent.
func loaded(b *testing.B, m *member) float64 {
	b.Helper()
	await(b, "idle", m.idle)
	tick := time.NewTicker(time.Second / 5)
	defer tick.Stop()
	began, before := time.Now(), ticks([]int{m.command.Process.Pid})
	for range scaled(30) * 5 {
		if err := submitTo(context.Background(), m, requests("core.noop", streamRate/5, "")); err != nil {
			b.Fatal(err)
		}
		<-tick.C
	}
	return 100 * (ticks([]int{m.command.Process.Pid}) - before).Seconds() / time.Since(began).Seconds()
}

// readStreams reads streams until end. Heard is how many events have come.
func readStreams(b *testing.B, m *member) (end func(), heard func() int64) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	var events atomic.Int64
	for i := range streamReaders {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet,
			m.url+"/api/v1/stream?topics="+url.QueryEscape("counters,journal,"+streamLists[i%len(streamLists)]), nil)
		if err != nil {
			b.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		readers.Go(func() {
			defer func() { _ = response.Body.Close() }()
			lines := bufio.NewScanner(response.Body)
			lines.Buffer(nil, 4<<20)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "event: ") {
					events.Add(1)
				}
			}
		})
	}
	return func() { cancel(); readers.Wait() }, events.Load
}
