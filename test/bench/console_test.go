package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// consoleReads are what the pages of the console ask for; %s is a label that one in a thousand executions has.
var consoleReads = []string{
	"overview", "executions", "executions?order=oldest", "executions?status=failed,timed_out,abandoned", "executions?status=completed", "executions?status=running,cancelling",
	"executions?action=core.noop", "executions?action=core.none", "executions?pool=go", "executions?pool=none", "executions?session=s7", "executions?worker=none",
	"executions?label=part%3D7", "executions?label=part%3Dnone", "executions?error=boom", "executions?error=none", "executions?key=none", "executions?id_prefix=01a2", "executions?not.action=core.noop",
	"facets?fields=status,action,pool,error", "facets?fields=status&session=s7", "errors", "errors?by=worker", "journal?limit=100", "series", "ledger", "pools", "nodes", "workers",
	"sessions", "dead-letters", "findings",
}

// BenchmarkConsole measures how long a node with 1,000,000 ended executions takes to answer what the console's pages ask for, each 20 times, one after another.
func BenchmarkConsole(b *testing.B) {
	program := binary(b)
	b.Run("SQLite", func(b *testing.B) {
		for range b.N {
			readConsole(b, members(b, program, 1)[0])
		}
	})
}

// BenchmarkFullConsole is BenchmarkConsole on Postgres.
func BenchmarkFullConsole(b *testing.B) {
	f, program := startFull(b), binary(b)
	b.Run("Postgres", func(b *testing.B) {
		for range b.N {
			readConsole(b, f.alone(b, program))
		}
	})
}

// readConsole reports the p95 of the slowest answer, and the median of all p95.
func readConsole(b *testing.B, m *member) {
	b.Helper()
	fillByHTTP(b, m, scaled(1_000_000))
	var worst []time.Duration
	var each strings.Builder
	month := "series?by=action&metric=run&points=600&from=" + time.Now().AddDate(0, 0, -30).UTC().Format(time.RFC3339)
	for _, path := range append(slices.Clone(consoleReads), month) {
		var took []time.Duration
		for range 20 {
			began := time.Now()
			m.reads(path)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		fmt.Fprintf(&each, "%s: p50 %s, p95 %s\n", path, took[10].Round(10*time.Microsecond), took[18].Round(10*time.Microsecond))
		worst = append(worst, took[18])
	}
	b.Logf("load %s\n%s", load(), each.String())
	slices.Sort(worst)
	b.ReportMetric(float64(worst[len(worst)-1])/float64(time.Millisecond), "slowest-p95-ms")
	b.ReportMetric(float64(worst[len(worst)/2])/float64(time.Millisecond), "middle-p95-ms")
	m.end()
}

// fillByHTTP has the node execute so many executions: one in twenty fails, one in ten has a session, and all have one of a thousand labels.
func fillByHTTP(b *testing.B, m *member, total int) {
	b.Helper()
	const batch = 5000
	for done := 0; done < total; done += batch {
		list := requests("core.noop", batch, "")
		for i := range list {
			list[i].Labels = map[string]string{"part": fmt.Sprint(i % 1000)}
			if i%20 == 0 {
				list[i].ActionRef, list[i].Parameters = "core.fail", []byte(`{"message":"no","code":"boom"}`)
			}
			if i%10 == 0 {
				list[i].Session = fmt.Sprint("s", i%100)
			}
		}
		if err := submitTo(context.Background(), m, list); err != nil {
			b.Fatal(err)
		}
		if done%(10*batch) == 9*batch {
			awaitBy(b, 100*time.Millisecond, "worked off", m.idle)
		}
	}
	await(b, "idle", m.idle)
}

// reads asks for one answer, and reads it.
func (m *member) reads(path string) {
	m.b.Helper()
	answer, err := http.Get(m.url + "/api/v1/" + path)
	if err != nil {
		m.b.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK {
		m.b.Fatalf("%s: %d %s %v", path, answer.StatusCode, text, err)
	}
}
