package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/benchmarks.md anew, and the page of testdata")

const docs = "../../docs"

// TestThePageIsRendered compares the page with its file of results.
func TestThePageIsRendered(t *testing.T) {
	t.Parallel()
	r, err := load(filepath.Join(docs, "benchmarks.json"))
	require.NoError(t, err)
	same(t, filepath.Join(docs, "benchmarks.md"), render(topics, r))
}

func same(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(have), "run go test ./test/record -update")
}

// small is a table of topics with all forms of a row.
var small = []topic{{
	title: "Bulk", intro: "What is done.", rows: []row{
		{name: "River", bench: "Full/Bulk/River", show: rates},
		{name: "Postgres alone", bench: "Full/Bulk/Postgres", show: rates, peer: "Full/Bulk/River", goal: goal{ratio: 1.5, cpu: 0.7}, missed: "The CPU is full."},
		{name: "Postgres and RabbitMQ", bench: "Full/Bulk/RabbitMQ", show: rates, peer: "Full/Bulk/River", goal: goal{ratio: 1}},
		{name: "SQLite", bench: "SQLite/Bulk", show: starts, goal: goal{atMost: 3, commits: 3}},
	},
}}

// output parses a fixture as the output of one round.
func output(t *testing.T, name string, number int, run *Run) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	results := map[string]Round{}
	heard, err := parse(f, io.Discard, func(m measured) { results[m.name] = Round{Number: number, Load: 1.5, Values: m.values} })
	require.NoError(t, err)
	run.hear(heard.settings)
	require.NoError(t, run.add(small[0].rows[:2], number, results, heard))
}

func run(day int) Run {
	return Run{Date: time.Date(2026, 11, day, 12, 0, 0, 0, time.UTC), Commit: "0123456789", Command: command("Bulk|x", 2, false), Load: 0.25,
		Rows:    map[string][]Round{},
		Machine: Machine{Cores: 2, Memory: 24000, Kernel: "6.18", SyncMs: 0.155}, Versions: map[string]string{"go": "1.26.8"}}
}

func TestARunIsParsedMergedAndRendered(t *testing.T) {
	t.Parallel()
	first := run(1)
	output(t, "round1.txt", 1, &first)
	output(t, "round2.txt", 2, &first)
	require.Equal(t, "A Processor @ 3.00GHz", first.Machine.CPU)
	require.Equal(t, map[string]string{"go": "1.26.8", "postgres": "15.8 (Debian)"}, first.Versions)
	require.Equal(t, map[string]float64{"ns/op": 2e9, "executions/s": 20000, "node-cpu-s/10k": 0.25, "postgres-cpu-s/10k": 0.5},
		first.Rows["Full/Bulk/River"][0].Values)

	second := run(2)
	second.Short, second.Settings = true, []string{"GOGC=50"}
	second.Rows["SQLite/Bulk"] = []Round{{Number: 1, Load: 2, Values: map[string]float64{"start-p50-ms": 2, "start-p99-ms": 4, commitUnit: 0.5}}}
	r := Results{}.merge(first).merge(second)
	require.Len(t, r.Runs, 2)

	path := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, r.save(path))
	again, err := load(path)
	require.NoError(t, err)
	require.Equal(t, r, again)
	same(t, filepath.Join("testdata", "page.md"), render(small, again))
}

func TestANewMeasurementReplacesTheOldOne(t *testing.T) {
	t.Parallel()
	rounds := func(v float64) []Round { return []Round{{Number: 1, Values: map[string]float64{"executions/s": v}}} }
	old, newer := run(1), run(2)
	old.Rows = map[string][]Round{"a": rounds(1), "b": rounds(2)}
	newer.Rows = map[string][]Round{"a": rounds(3)}
	r := Results{}.merge(old).merge(newer)
	require.Equal(t, map[string][]Round{"b": rounds(2)}, r.Runs[0].Rows)
	require.Equal(t, map[string][]Round{"a": rounds(3)}, r.Runs[1].Rows)
	newer.Rows["b"] = rounds(4)
	require.Equal(t, []Run{newer}, r.merge(newer).merge(run(3)).Runs, "a run without rows goes, and one without any is not added")
}

func TestAnInvalidResultsFileIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":             "is empty",
		"  \n":         "is empty",
		"{":            "is no file of results",
		`{"rows": []}`: "is no file of results",
		`{"runs": [{"date": "2026-11-01T12:00:00Z", "rows": {"a": [{"round": 1, "values": {"x": 1}}]}}]}`:                     "has no date, no commit",
		`{"runs": [{"date": "2026-11-01T12:00:00Z", "commit": "c", "rows": {"a": []}}]}`:                                      "row a has no rounds",
		`{"runs": [{"date": "2026-11-01T12:00:00Z", "commit": "c", "rows": {"a": [{"round": 1, "load": 1, "values": {}}]}}]}`: "no number or no values",
	} {
		path := filepath.Join(t.TempDir(), "results.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := load(path)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, path)
	}
	r, err := load(filepath.Join(t.TempDir(), "none.json"))
	require.NoError(t, err)
	require.Contains(t, render(small, r), "Nothing has been measured yet.")
}

// A tail is compared within each round: the medians of both figures may be of different ones.
func TestAGoalForTheTailIsOfEachRound(t *testing.T) {
	t.Parallel()
	r := row{show: starts, goal: goal{tail: 3}}
	rounds := func(figures ...[2]float64) (all []Round) {
		for _, f := range figures {
			all = append(all, Round{Values: map[string]float64{"start-p50-ms": f[0], "start-p99-ms": f[1]}})
		}
		return all
	}
	require.Equal(t, "p99 ≤ 3 times p50: met", goalText(r, &Run{}, rounds([2]float64{1, 3}, [2]float64{2, 4}, [2]float64{1, 9})))
	require.Equal(t, "p99 ≤ 3 times p50: **missed**", goalText(r, &Run{}, rounds([2]float64{1, 4}, [2]float64{2, 4}, [2]float64{3, 12})))
}

func TestFailedBenchmarksHaveNoFigures(t *testing.T) {
	t.Parallel()
	r := run(1)
	text := "--- FAIL: BenchmarkFull/Bulk/River-2\n    x_test.go:1: no\nBenchmarkFull/Bulk/River-2 1 12 ns/op\nBenchmarkFull/Bulk/Odd-2 1 twelve ns/op\n"
	results := map[string]Round{}
	heard, err := parse(strings.NewReader(text), io.Discard, func(m measured) { results[m.name] = Round{Number: 1, Values: m.values} })
	require.NoError(t, err)
	require.Len(t, results, 1)
	err = r.add(small[0].rows[:2], 1, results, heard)
	require.ErrorContains(t, err, "Full/Bulk/River has failed")
	require.ErrorContains(t, err, "Full/Bulk/Postgres has reported nothing")
	require.Empty(t, r.Rows)
}

func TestRowsAreChosenWithTheirPeers(t *testing.T) {
	t.Parallel()
	rows, err := chosen(small, "Postgres")
	require.NoError(t, err)
	require.Equal(t, "^BenchmarkFull$/^Bulk$/^River$|^BenchmarkFull$/^Bulk$/^Postgres$", pattern(rows))
	_, err = chosen(small, "nothing")
	require.ErrorContains(t, err, "-list")
	_, err = chosen(small, "(")
	require.ErrorContains(t, err, "-only")
}

// TestTopicsNameExistingBenchmarks compares the table of topics with the benchmarks, and the first table with the topics.
func TestTopicsNameExistingBenchmarks(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	each(topics, func(r row) {
		require.False(t, known[r.bench], "%s is in two rows", r.bench)
		known[r.bench] = true
		require.NotEmpty(t, r.show, r.bench)
		pkg, name := r.place()
		top, _, _ := strings.Cut(name, "/")
		files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
		require.NoError(t, err)
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found = found || strings.Contains(string(text), "\nfunc Benchmark"+top+"(")
		}
		require.True(t, found, "%s has no Benchmark%s", pkg, top)
	})
	each(topics, func(r row) {
		require.True(t, r.peer == "" || known[r.peer], "%s is compared with %s, which has no row", r.bench, r.peer)
	})
	for _, c := range choice.rows {
		require.Len(t, c.benches, len(choice.parts), c.name)
		for _, bench := range c.benches {
			require.True(t, bench == "" || known[bench], bench)
		}
	}
	for _, topic := range topics {
		pattern := regexp.MustCompile(topic.pattern())
		for _, r := range topic.rows {
			require.True(t, pattern.MatchString(r.bench), "%s does not choose %s", pattern, r.bench)
		}
	}
}
