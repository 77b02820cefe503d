package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// The lines that the modules of the peers print: a rate with the CPU time, or the time from submit to start.
var (
	peerRate  = regexp.MustCompile(`\b(\d+)/s; cpu-seconds per 10,000: client ([0-9.]+)(?:, (\w+) ([0-9.]+))?`)
	peerStart = regexp.MustCompile(`p50 ([0-9.]+[mnµ]?s), p99 ([0-9.]+[mnµ]?s)`)
)

// river runs one part by River, bulk, callers, tuned or default, on a new database, and reports its figures. f is nil for SQLite.
func river(b *testing.B, f *full, part string) {
	for range b.N {
		args := []string{"-only", part, "-jobs", strconv.Itoa(scaled(50_000)), "-starts", strconv.Itoa(scaled(500))}
		if f == nil {
			args = append(args, "-file", filepath.Join(b.TempDir(), "river.db"))
		} else {
			args = append(args, "-url", f.fresh(b), "-postmaster", strconv.Itoa(f.postgres.Pids()[0]))
		}
		peer(b, "river", args...)
	}
}

// asynq runs one part by Asynq, bulk, callers or start, on a new Redis server that writes to the disk as sync says, and reports
// its figures. A server that syncs each write is slow, so there are fewer tasks.
func asynq(b *testing.B, part, sync string) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		b.Skip("no Redis here; on Debian: apt-get install redis-server")
	}
	for range b.N {
		peer(b, "asynq", "-only", part, "-sync", sync, "-jobs", strconv.Itoa(scaled(10_000)), "-starts", strconv.Itoa(scaled(500)))
	}
}

// peer runs the module of a peer with one part, and reports its figures.
func peer(b *testing.B, module string, args ...string) {
	b.Helper()
	cmd := exec.Command("go", append([]string{"run", "."}, args...)...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
	out := output(b, cmd)
	if m := peerRate.FindStringSubmatch(out); m != nil {
		reportNumber(b, m[1], "executions/s")
		reportNumber(b, m[2], "node-cpu-s/10k")
		if m[3] != "" {
			reportNumber(b, m[4], m[3]+"-cpu-s/10k")
		}
		return
	}
	m := peerStart.FindStringSubmatch(out)
	if m == nil {
		b.Fatalf("no figures of %s %v in %q", module, args, out)
	}
	for i, unit := range []string{"start-p50-ms", "start-p99-ms"} {
		took, err := time.ParseDuration(m[i+1])
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(took)/float64(time.Millisecond), unit)
	}
}

func reportNumber(b *testing.B, text, unit string) {
	b.Helper()
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(value, unit)
}
