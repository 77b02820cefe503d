package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/store/sqlite"
)

// question is one that the pages of the console ask.
type question struct {
	name string           // without what is of this run: times and identifiers
	path func(int) string // of each time that it is asked
	rest time.Duration    // before it is asked again, where the node gives one answer to all who ask meanwhile
	text bool             // it looks for a text
}

// asked is a question that is asked the same each time.
func asked(path string) question {
	return question{name: path, path: func(int) string { return path }, text: strings.Contains(path, "q=")}
}

// since is a question about a time that ends now. Each time it begins some minutes earlier: an answer that took long is kept, and would be
// given again.
func since(path string, length time.Duration) question {
	path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "from="
	ended := time.Now().UTC()
	return question{name: path + "-" + length.String(), text: strings.Contains(path, "q="), path: func(i int) string {
		return path + ended.Add(-length-time.Duration(i)*time.Minute).Format(time.RFC3339)
	}}
}

// about is a question about one of what the node has.
func about(format string, id any) question {
	q := asked(fmt.Sprintf(format, id))
	q.name = fmt.Sprintf(format, "ID")
	return q
}

// Lengths of what pages ask about.
const (
	day   = 24 * time.Hour
	month = 30 * day
)

// consoleQuestions are what the pages ask a node whose last executions, one of which failed, have just ended. One in a thousand executions
// has a label part=7.
func consoleQuestions(failed string) (list []question) {
	for _, path := range []string{
		"executions", "executions?order=oldest", "executions?status=failed,timed_out,abandoned", "executions?status=completed", "executions?status=running,cancelling",
		"executions?action=core.noop", "executions?action=core.none", "executions?pool=go", "executions?pool=none", "executions?session=s70", "executions?session=none", "executions?worker=none",
		"executions?label=part%3D7", "executions?label=part%3Dnone", "executions?error=boom", "executions?error=none", "executions?key=none", "executions?id_prefix=01a2", "executions?not.action=core.noop",
		"executions?q=boom", "executions?q=nowhere", "executions?status=completed&q=nowhere",
		"findings", "pools", "pools/go", "nodes", "reach", "workers", "workers/a/go/0", "workers/a/go/0/runs", "workers/a/go/0/health", "fleet", "actions", "config", "me",
		"journal", "journal?kinds=worker", "journal?kinds=worker&subject=a/go/0", "journal?kinds=worker&subject=none", "journal?what=degraded", "journal?what=none", "journal?not.kinds=worker",
		"sessions", "sessions?q=s7", "sessions?q=none", "sessions/go/s70", "dead-letters", "dead-letters?reason=expired", "dead-letters/stats", "webhooks", "operations",
	} {
		list = append(list, asked(path))
	}
	for _, path := range []string{"executions/%s", "executions/%s/events", "executions/%s/chain", "executions/%s/why", "executions/%s/output", "executions/%s/timeline"} {
		list = append(list, about(path, failed))
	}
	for _, length := range []time.Duration{time.Hour, day, 7 * day} {
		for _, path := range []string{
			"executions", "executions?status=failed&error=none", "overview", "differences", "ledger", "errors", "errors?by=worker", "errors?q=nowhere",
			"facets?fields=status,action,pool,error", "facets?fields=worker,label.part", "facets?fields=status&session=s70", "facets?fields=status&label=part%3Dnone", "facets?fields=status&q=nowhere",
			"series?by=status", "series?by=action&metric=run", "series?metric=busy", "journal?kinds=worker", "journal?limit=1000",
		} {
			list = append(list, since(path, length))
		}
	}
	overview := asked("overview")
	overview.rest = time.Second
	ended := time.Now().UTC()
	past := question{name: "fleet?at=", path: func(i int) string {
		return "fleet?at=" + ended.Add(-time.Duration(i)*7*time.Second).Format(time.RFC3339)
	}}
	return append(list, overview, past, since("series?by=action&metric=run&points=600", month), since("differences", month))
}

// BenchmarkConsole measures how long a node with 1,000,000 ended executions and a week of what nodes record takes to answer what the
// console's pages ask for, each 20 times, one after another.
func BenchmarkConsole(b *testing.B) {
	program := binary(b)
	b.Run("SQLite", func(b *testing.B) {
		for range b.N {
			data := b.TempDir()
			s, err := sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(data, "troupe.db")})
			if err != nil {
				b.Fatal(err)
			}
			recordWeek(b, s)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			readConsole(b, members(b, program, 1, "TROUPE_DATA="+data)[0])
		}
	})
}

// BenchmarkFullConsole is BenchmarkConsole on Postgres.
func BenchmarkFullConsole(b *testing.B) {
	f, program := startFull(b), binary(b)
	b.Run("Postgres", func(b *testing.B) {
		for range b.N {
			url := f.fresh(b)
			recordWeek(b, f.look(b))
			readConsole(b, members(b, program, 1, "TROUPE_STORE_URL="+url)[0])
		}
	})
}

// readConsole reports the p95 of the slowest answer and the median of all p95, and apart from them that of the slowest search for a text.
func readConsole(b *testing.B, m *member) {
	b.Helper()
	fillByHTTP(b, m, scaled(1_000_000))
	page, err := m.client.Executions(context.Background(), url.Values{"status": {"failed"}, "limit": {"1"}})
	if err != nil || len(page.Executions) == 0 {
		b.Fatalf("no execution failed: %v", err)
	}
	var worst, texts []time.Duration
	var each strings.Builder
	for _, q := range consoleQuestions(page.Executions[0].ID.String()) {
		var took []time.Duration
		for i := range 20 {
			if i > 0 {
				time.Sleep(q.rest)
			}
			began := time.Now()
			m.reads(q.path(i))
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		fmt.Fprintf(&each, "%s: p50 %s, p95 %s\n", q.name, took[10].Round(10*time.Microsecond), took[18].Round(10*time.Microsecond))
		if q.text {
			texts = append(texts, took[18])
		} else {
			worst = append(worst, took[18])
		}
	}
	b.Logf("load %s\n%s", load(), each.String())
	slices.Sort(worst)
	b.ReportMetric(float64(worst[len(worst)-1])/float64(time.Millisecond), "slowest-p95-ms")
	b.ReportMetric(float64(worst[len(worst)/2])/float64(time.Millisecond), "middle-p95-ms")
	b.ReportMetric(float64(slices.Max(texts))/float64(time.Millisecond), "text-p95-ms")
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
