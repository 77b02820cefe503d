package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
)

// besideRounds is how often the two take turns.
const besideRounds = 7

// beside has another program and Troupe take turns at the same, so that a machine whose speed differs from minute to minute is as fast
// for the one as for the other, and prints how many times the other's rate Troupe's is, round by round.
func beside(b *testing.B, other string, theirs, ours func(*testing.B) float64) {
	b.Helper()
	var ratios []float64
	for round := range besideRounds {
		var rates [2]float64
		b.Run(fmt.Sprintf("%s%d", other, round+1), func(b *testing.B) {
			rates[0] = theirs(b)
			b.ReportMetric(rates[0], "executions/s")
		})
		b.Run(fmt.Sprintf("Troupe%d", round+1), func(b *testing.B) { rates[1] = ours(b) })
		if rates[0] == 0 || rates[1] == 0 {
			return // one of them has failed, and said so
		}
		ratios = append(ratios, rates[1]/rates[0])
	}
	b.Logf("times %s's rate: %.2f", other, ratios)
	slices.Sort(ratios)
	b.Logf("median: %.2f", ratios[len(ratios)/2])
}

// besideRiver has River and Troupe take turns at bulk or callers.
func besideRiver(b *testing.B, f *full, part string, troupe func(*testing.B) float64) {
	beside(b, "River", func(b *testing.B) float64 { return riverRate(b, part, river(b, f, "-only", part)) }, troupe)
}

// celeryPython is the interpreter that has Celery, if one has: Debian's python3-celery is not for a Python that was built beside it.
func celeryPython() string {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import celery").Run() == nil {
			return python
		}
	}
	return ""
}

// besideCelery has Celery, where it is installed, and Troupe take turns at a Python echo on one RabbitMQ, by one interpreter.
func besideCelery(b *testing.B, f *full) {
	python := celeryPython()
	if python == "" {
		b.Skip("no Celery here; on Debian: apt-get install python3-celery")
	}
	theirs := func(b *testing.B) float64 {
		cmd := exec.Command(python, "echo.py")
		cmd.Dir = "celerybench"
		cmd.Env = append(os.Environ(), "ECHO_URL="+f.rabbitmq.URL, "ECHO_QUEUE=celery-echo", "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		var rate float64
		if _, err := fmt.Sscanf(out.String(), "celery echo: %f/s", &rate); err != nil {
			b.Fatalf("no rate in %q: %v", out.String(), err)
		}
		return rate
	}
	ours := func(b *testing.B) float64 {
		pack := withPack(b, 8)
		return pythonEcho(b, f.on(b, func(c *node.Config) {
			pack(c)
			c.Interpreters = map[messages.Runtime]string{"python": python}
		}))
	}
	beside(b, "Celery", theirs, ours)
}

// river runs the comparison and returns its lines.
func river(b *testing.B, f *full, arguments ...string) string {
	b.Helper()
	cmd := exec.Command("go", append([]string{"run", ".", "-url", f.fresh(b), "-postmaster", strconv.Itoa(f.postgres.Pids()[0])}, arguments...)...)
	cmd.Dir = "river"
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	return out.String()
}

// riverLine is the line of a part, which ends with its rate and the CPU time.
var riverLine = regexp.MustCompile(`(?m)^river (\w+): .*\b(\d+)/s; cpu-seconds`)

// riverRate reads the rate of bulk or callers from River's lines.
func riverRate(b *testing.B, part, lines string) float64 {
	b.Helper()
	for _, match := range riverLine.FindAllStringSubmatch(lines, -1) {
		if match[1] != part {
			continue
		}
		rate, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			b.Fatal(err)
		}
		return rate
	}
	b.Fatalf("no rate of %s in %q", part, lines)
	return 0
}
