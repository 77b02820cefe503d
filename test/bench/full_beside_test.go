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
)

// besideRounds is how often the two take turns.
const besideRounds = 7

// callersBeside has River and Troupe take turns at 16 callers, so that a machine whose speed differs from minute to minute
// is as fast for the one as for the other, and prints how many times River's rate Troupe's is, round by round.
func callersBeside(b *testing.B, f *full) {
	var ratios []float64
	for round := range besideRounds {
		var theirs, ours float64
		b.Run(fmt.Sprintf("River%d", round+1), func(b *testing.B) {
			theirs = riverCallersRate(b, river(b, f, "-only", "callers"))
			b.ReportMetric(theirs, "executions/s")
		})
		b.Run(fmt.Sprintf("Troupe%d", round+1), func(b *testing.B) { ours = callers(b, f.on(b, nil), f) })
		if theirs == 0 || ours == 0 {
			return // one of them has failed, and said so
		}
		ratios = append(ratios, ours/theirs)
	}
	b.Logf("times River's rate: %.2f", ratios)
	slices.Sort(ratios)
	b.Logf("median: %.2f", ratios[len(ratios)/2])
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

var riverCallersLine = regexp.MustCompile(`river callers: .* (\d+)/s;`)

// riverCallersRate reads the rate of the callers from River's lines.
func riverCallersRate(b *testing.B, lines string) float64 {
	b.Helper()
	match := riverCallersLine.FindStringSubmatch(lines)
	if match == nil {
		b.Fatalf("no rate of callers in %q", lines)
	}
	rate, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return rate
}
