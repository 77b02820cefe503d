package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe/node"
)

// BenchmarkRecording measures what the journal, the counts by minute and the keyframes cost submissions and outcomes on the embedded store.
func BenchmarkRecording(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) { recording(b, nil, nil) })
}

// BenchmarkFullRecording is BenchmarkRecording on Postgres alone, and with RabbitMQ, where a part is over when all notices are sent.
func BenchmarkFullRecording(b *testing.B) {
	f := startFull(b)
	b.Run("Postgres", func(b *testing.B) { recording(b, f, directly) })
	b.Run("RabbitMQ", func(b *testing.B) { recording(b, f, tellingDefaults) })
}

// recordingTurns is how often each of the two nodes is measured. Which of them is first changes with each turn. One part differs from the next
// by some 5 %; the middle of thirty by about 1 %.
const recordingTurns = 30

// recordedPart is what a node did with a part: executions stored and worked off in a second, and the CPU time of both.
type recordedPart struct{ submits, finishes, cpu float64 }

// recording measures parts of 20,000 by turns on a node that records and on one that does not, and reports the medians.
func recording(b *testing.B, f *full, change func(*node.Config)) {
	unrecorded := func(c *node.Config) {
		if change != nil {
			change(c)
		}
		c.Unrecorded = true
	}
	for range b.N {
		var sides [2]grownSide
		for _, which := range rand.Perm(2) { // which of two stores is the older one may matter
			sides[which] = newSide(b, f, []func(*node.Config){unrecorded, change}[which])
		}
		var parts [2][]recordedPart
		for turn := range recordingTurns + 1 {
			for i := range sides {
				which := (i + turn) % 2
				part := sides[which].recorded(b, f)
				if turn > 0 { // both are warm
					parts[which] = append(parts[which], part)
				}
			}
		}
		without, with := middlePart(parts[0]), middlePart(parts[1])
		b.ReportMetric(with.submits/without.submits, "of-unrecorded-submits")
		b.ReportMetric(with.finishes/without.finishes, "of-unrecorded-finishes")
		b.ReportMetric(with.cpu/without.cpu, "of-unrecorded-cpu")
		b.ReportMetric(with.submits, "submits/s")
		b.ReportMetric(with.finishes, "executions/s")
		b.ReportMetric(without.submits, "unrecorded-submits/s")
		b.ReportMetric(without.finishes, "unrecorded-executions/s")
	}
}

// recorded measures a part.
func (s grownSide) recorded(b *testing.B, f *full) recordedPart {
	b.Helper()
	count := scaled(20_000)
	before, began := f.usage(), time.Now()
	last := loadClosed(b, s.node, count)
	stored := time.Since(began)
	began = time.Now()
	openPool(b, s.node)
	workedOff(b, s.node, last)
	s.told()
	took, after := time.Since(began), f.usage()
	used := after.node - before.node + after.postgres - before.postgres + after.rabbitmq - before.rabbitmq
	return recordedPart{float64(count) / stored.Seconds(), float64(count) / took.Seconds(), used.Seconds()}
}

// middlePart has the median of each figure.
func middlePart(parts []recordedPart) recordedPart {
	middle := func(of func(recordedPart) float64) float64 {
		all := make([]float64, len(parts))
		for i, p := range parts {
			all[i] = of(p)
		}
		slices.Sort(all)
		return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
	}
	return recordedPart{
		middle(func(p recordedPart) float64 { return p.submits }), middle(func(p recordedPart) float64 { return p.finishes }),
		middle(func(p recordedPart) float64 { return p.cpu }),
	}
}
