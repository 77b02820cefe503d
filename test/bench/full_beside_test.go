package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// celeryPython is an interpreter that has Celery; empty: there is none. Debian's python3-celery does not work with a Python that
// was built separately.
func celeryPython() string {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import celery").Run() == nil {
			return python
		}
	}
	return ""
}

// celery measures a Python echo by Celery, if it is installed, on the RabbitMQ and without stored results.
func celery(b *testing.B, f *full) {
	python := celeryPython()
	if python == "" {
		b.Skip("no Celery here; on Debian: apt-get install python3-celery")
	}
	for range b.N {
		cmd := exec.Command(python, "echo.py")
		cmd.Dir = "celerybench"
		cmd.Env = append(os.Environ(), "ECHO_URL="+f.rabbitmq.URL, "ECHO_QUEUE=celery-echo", "ECHO_COUNT="+strconv.Itoa(scaled(10_000)),
			"PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore")
		out := output(b, cmd)
		var rate float64
		if _, err := fmt.Sscanf(out, "celery echo: %f/s", &rate); err != nil {
			b.Fatalf("no rate in %q: %v", out, err)
		}
		b.ReportMetric(rate, "executions/s")
	}
}

// output runs a program and returns its output.
func output(b *testing.B, cmd *exec.Cmd) string {
	b.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s: %v", cmd, err)
	}
	return out.String()
}

// The lines that River's module prints: a rate with the CPU time, or the time from submit to start.
var (
	riverRate  = regexp.MustCompile(`\b(\d+)/s; cpu-seconds per 10,000: client ([0-9.]+), postgres ([0-9.]+)`)
	riverStart = regexp.MustCompile(`p50 ([0-9.]+[mnµ]?s), p99 ([0-9.]+[mnµ]?s)`)
)

// river runs one part by River, bulk, callers, tuned or default, on a new database, and reports its figures.
func river(b *testing.B, f *full, part string) {
	for range b.N {
		cmd := exec.Command("go", "run", ".", "-url", f.fresh(b), "-postmaster", strconv.Itoa(f.postgres.Pids()[0]), "-only", part,
			"-jobs", strconv.Itoa(scaled(50_000)), "-starts", strconv.Itoa(scaled(500)))
		cmd.Dir = "river"
		cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
		line := output(b, cmd)
		if m := riverRate.FindStringSubmatch(line); m != nil {
			for i, unit := range []string{"executions/s", "node-cpu-s/10k", "postgres-cpu-s/10k"} {
				value, err := strconv.ParseFloat(m[i+1], 64)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(value, unit)
			}
			continue
		}
		m := riverStart.FindStringSubmatch(line)
		if m == nil {
			b.Fatalf("no figures of %s in %q", part, line)
		}
		for i, unit := range []string{"start-p50-ms", "start-p99-ms"} {
			took, err := time.ParseDuration(m[i+1])
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(took)/float64(time.Millisecond), unit)
		}
	}
}
