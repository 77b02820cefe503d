package main

import (
	"bufio"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// measured is a line of a benchmark's output, in the standard format: https://go.dev/design/14313-benchmark-format.
type measured struct {
	name   string // without "Benchmark" and the number of processors
	values map[string]float64
}

var (
	// setting is a line such as "cpu: …". A benchmark prints the versions of its servers in this form.
	setting    = regexp.MustCompile(`^([a-z][a-z0-9-]*):[ \t]+(\S.*)$`)
	processors = regexp.MustCompile(`-\d+$`)
	failure    = regexp.MustCompile(`^\s*--- FAIL: Benchmark(\S+)`)
)

// heard is what the output has besides results.
type heard struct {
	settings map[string]string
	failed   []string // the names of benchmarks
}

// parse reads the output of benchmarks while they run. It calls row for each result, and copies everything except settings to
// out.
func parse(in io.Reader, out io.Writer, row func(measured)) (heard, error) {
	h := heard{settings: map[string]string{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if found := setting.FindStringSubmatch(line); found != nil {
			h.settings[found[1]] = found[2]
			continue
		}
		if m, ok := result(line); ok {
			row(m)
		} else if fell := failure.FindStringSubmatch(line); fell != nil {
			h.failed = append(h.failed, processors.ReplaceAllString(fell[1], ""))
		}
		if _, err := io.WriteString(out, line+"\n"); err != nil {
			return h, err
		}
	}
	return h, lines.Err()
}

// result reads "BenchmarkName-2  1  123 ns/op  45.6 executions/s".
func result(line string) (measured, bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || len(fields)%2 != 0 || !strings.HasPrefix(fields[0], "Benchmark") {
		return measured{}, false
	}
	if _, err := strconv.Atoi(fields[1]); err != nil {
		return measured{}, false
	}
	m := measured{name: processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), ""), values: map[string]float64{}}
	for i := 2; i < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return measured{}, false
		}
		m.values[fields[i+1]] = value
	}
	return m, true
}
