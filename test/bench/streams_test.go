package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// streamRate is the load of BenchmarkStreams: executions of four changes each a second.
const streamRate = 125

// openPage is what a page of the console has of a node while somebody looks at it: its topics of the live stream, and what it asks beside
// them. EXECUTION stands for an execution that runs, WORKER for its worker, FROM for an hour ago.
type openPage struct {
	topics string
	asks   []polled
}

// polled is a question that is asked again some time after its answer.
type polled struct {
	path  string
	every time.Duration
}

// openPages are the pages that BenchmarkStreams opens, each in a browser of its own.
var openPages = slices.Concat(
	slices.Repeat([]openPage{{"counters,journal:limit=12,nodes,list:status=failed%2Ctimed_out%2Cabandoned&limit=8", charts("")}}, 5),
	lists("", "status=failed", "status=running", "pool=go", "action=core.none", "label=part%3D7"),
	slices.Repeat([]openPage{{"rows:EXECUTION,execution:EXECUTION", []polled{
		{"executions/EXECUTION", 4 * time.Second}, {"executions/EXECUTION/events?newest=1", 5 * time.Second}, {"executions/EXECUTION/timeline", 5 * time.Second},
		{"executions/EXECUTION/why", 4 * time.Second}, {"workers/WORKER/runs", 5 * time.Second},
	}}}, 2),
	[]openPage{
		{"pools", nil},
		{"nodes,workers:pool=go&limit=1000", append([]polled{{"pools/go", 2 * time.Second}}, charts("&pool=go", "by=state&metric=slots", "by=all&metric=waiting")...)},
		{"workers:order=troubled", nil},
		{"", []polled{{"workers/WORKER", 2 * time.Second}, {"workers/WORKER/runs", 5 * time.Second}}},
		{"nodes", []polled{{"reach", 5 * time.Second}}},
		{"fleet,pools,tree", nil},
		{"journal", nil},
	},
)

// lists are pages of executions by their filters, each with the counts above it, and a chart of outcomes where minutes have these.
func lists(filters ...string) (pages []openPage) {
	for _, filter := range filters {
		page := openPage{strings.TrimSuffix("list:"+filter, ":"), []polled{
			{strings.TrimSuffix("facets?fields=status,action,pool,error,worker&limit=8&"+filter, "&"), 5 * time.Minute},
		}}
		if filter != "status=running" && !strings.HasPrefix(filter, "label=") {
			page.topics += ",nodes"
			of := ""
			if !strings.HasPrefix(filter, "status=") { // the chart's lines are the statuses
				of = filter
			}
			page.asks = append(page.asks, polled{strings.TrimSuffix("series?by=status&from=FROM&points=120&"+of, "&"), 15 * time.Second})
		}
		pages = append(pages, page)
	}
	return pages
}

// charts are the questions of a page's charts of the last hour, which are asked every 15 s.
func charts(scope string, more ...string) (asks []polled) {
	for _, of := range append([]string{"by=status", "by=all&metric=submitted", "by=all&metric=wait", "by=all&metric=run"}, more...) {
		asks = append(asks, polled{"series?" + of + scope + "&from=FROM&points=120", 15 * time.Second})
	}
	return asks
}

// BenchmarkStreams measures what 20 open pages of the console cost a node on the embedded store that has 1,000 Go workers and 1,000,000
// executions, with 500 changes a second: in percent of a core and in resident memory, what its process uses with them, less what it uses for
// the same load before and after. The pages are no browsers: they read the streams, and ask what the console asks.
func BenchmarkStreams(b *testing.B) {
	program := binary(b)
	for range b.N {
		m := members(b, program, 1, "TROUPE_POOL_GO=1000")[0]
		fillByHTTP(b, m, scaled(1_000_000))
		id, worker := runsLong(b, m)
		early, before := loaded(b, m), loaded(b, m)
		end, heard := openAll(b, m, strings.NewReplacer("EXECUTION", id, "WORKER", worker))
		first, second := loaded(b, m), loaded(b, m)
		end()
		after := loaded(b, m)
		if heard() < int64(len(openPages)) {
			b.Fatalf("%d pages heard %d events and answers", len(openPages), heard())
		}
		load := (early.cpu + before.cpu + after.cpu) / 3 // what a node does for itself differs from one half minute to the next
		b.ReportMetric((first.cpu+second.cpu)/2-load, "streams-cpu-%")
		b.ReportMetric(load, "load-cpu-%")
		b.ReportMetric(max(first.resident, second.resident)-max(early.resident, before.resident), "streams-MiB-more") // a heap that has grown does not shrink soon
		b.ReportMetric(float64(heard())/float64(2*scaled(30)), "events/s")
		m.end()
	}
}

// used is what a node's process used for a while: in percent of a core, and in MiB in the mean.
type used struct{ cpu, resident float64 }

// loaded submits executions at the rate for a while, and returns what the node used meanwhile.
func loaded(b *testing.B, m *member) (u used) {
	b.Helper()
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

// runsLong starts an execution that runs for as long as the benchmark, and returns its id and its worker.
func runsLong(b *testing.B, m *member) (id, worker string) {
	b.Helper()
	v, err := m.client.Submit(context.Background(), requests("core.sleep", 1, `{"seconds":3000}`)[0], 0)
	if err != nil {
		b.Fatal(err)
	}
	await(b, "runs", func() bool {
		v, err = m.client.Execution(context.Background(), v.ID.String())
		return err == nil && v.Status == messages.Running
	})
	return v.ID.String(), string(v.Worker)
}

// openAll opens the pages until end. Heard is how many events and answers have come.
func openAll(b *testing.B, m *member, filled *strings.Replacer) (end func(), heard func() int64) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var open sync.WaitGroup
	var parts atomic.Int64
	for i, page := range openPages {
		topics := strings.TrimSuffix("counters,journal,"+filled.Replace(page.topics), ",")
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+"/api/v1/stream?topics="+url.QueryEscape(topics), nil)
		if err != nil {
			b.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil || response.StatusCode != http.StatusOK {
			b.Fatal(topics, err, response)
		}
		open.Go(func() {
			defer func() { _ = response.Body.Close() }()
			lines := bufio.NewScanner(response.Body)
			lines.Buffer(nil, 4<<20)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "event: ") {
					parts.Add(1)
				}
			}
		})
		for k, a := range page.asks {
			first := a.every * time.Duration(i+k+1) / time.Duration(len(openPages)+len(page.asks)) // not all at once
			open.Go(func() {
				if err := m.asks(ctx, filled, a, first, &parts); err != nil && ctx.Err() == nil {
					b.Error(err)
				}
			})
		}
	}
	return func() { cancel(); open.Wait() }, parts.Load
}

// asks asks a question again and again, until the context ends, and counts the answers.
func (m *member) asks(ctx context.Context, filled *strings.Replacer, a polled, first time.Duration, parts *atomic.Int64) error {
	for wait := first; ; wait = a.every {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		path := strings.ReplaceAll(filled.Replace(a.path), "FROM", url.QueryEscape(time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)))
		if !strings.HasPrefix(path, "/") {
			path = "/api/v1/" + path
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+path, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %d %w", path, answer.StatusCode, err)
		}
		parts.Add(1)
	}
}
