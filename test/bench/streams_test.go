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

// The load of BenchmarkStreams: 125 executions of four changes each a second, and 20 readers, two of each of these streams. Each page follows
// the counters and the journal.
const (
	streamRate    = 125
	streamReaders = 20
)

var streamTopics = []string{
	"list", "list:status=failed", "list:status=running", "list:pool=go", "list:action=core.noop&limit=50", "list:action=core.none", "list:label=part%3D7",
	"fleet", "fleet", "",
}

// BenchmarkStreams measures what 20 readers of live streams cost a node on the embedded store that has 1,000 Go workers and 1,000,000
// executions, with 500 changes a second: in percent of a core and in resident memory, what its process uses with them, less what it uses for
// the same load without.
func BenchmarkStreams(b *testing.B) {
	program := binary(b)
	for range b.N {
		m := members(b, program, 1, "TROUPE_POOL_GO=1000")[0]
		fillByHTTP(b, m, scaled(1_000_000))
		without := loaded(b, m)
		end, heard := readStreams(b, m)
		with := loaded(b, m)
		end()
		if heard() < streamReaders {
			b.Fatalf("%d events were read by %d readers", heard(), streamReaders)
		}
		b.ReportMetric(with.cpu-without.cpu, "streams-cpu-%")
		b.ReportMetric(without.cpu, "load-cpu-%")
		b.ReportMetric(with.resident-without.resident, "streams-MiB-more")
		b.ReportMetric(float64(heard())/float64(scaled(30)), "events/s")
		m.end()
	}
}

// used is what a node's process used for a while: in percent of a core, and in MiB in the mean.
type used struct{ cpu, resident float64 }

// loaded submits executions at the rate for a while, and returns what the node used meanwhile.
func loaded(b *testing.B, m *member) (u used) {
	b.Helper()
	await(b, "idle", m.idle)
	tick := time.NewTicker(time.Second / 5)
	defer tick.Stop()
	pid, rounds := m.command.Process.Pid, scaled(30)*5
	began, before := time.Now(), ticks([]int{pid})
	for range rounds {
		if err := submitTo(context.Background(), m, requests("core.noop", streamRate/5, "")); err != nil {
			b.Fatal(err)
		}
		<-tick.C
		u.resident += resident(b, pid) / (1 << 20) / float64(rounds)
	}
	u.cpu = 100 * (ticks([]int{pid}) - before).Seconds() / time.Since(began).Seconds()
	return u
}

// readStreams reads streams until end. Heard is how many events have come.
func readStreams(b *testing.B, m *member) (end func(), heard func() int64) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	var events atomic.Int64
	for i := range streamReaders {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet,
			m.url+"/api/v1/stream?topics="+url.QueryEscape(strings.TrimSuffix("counters,journal,"+streamTopics[i%len(streamTopics)], ",")), nil)
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
