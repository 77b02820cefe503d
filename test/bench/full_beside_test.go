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

// besideRiver has River and Troupe take turns at bulk or callers, so that a machine whose speed differs from minute to minute is as
// fast for the one as for the other, and prints how many times River's rate Troupe's is, round by round.
func besideRiver(b *testing.B, f *full, part string, troupe func(*testing.B) float64) {
	var ratios []float64
	for round := range besideRounds {
		var theirs, ours float64
		b.Run(fmt.Sprintf("River%d", round+1), func(b *testing.B) {
			theirs = riverRate(b, part, river(b, f, "-only", part))
			b.ReportMetric(theirs, "executions/s")
		})
		b.Run(fmt.Sprintf("Troupe%d", round+1), func(b *testing.B) { ours = troupe(b) })
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
