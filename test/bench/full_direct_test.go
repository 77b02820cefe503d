package bench

import (
	"fmt"
	"testing"

	"github.com/troupe-run/troupe/node"
)

// directly takes RabbitMQ away from a node: nodes hand work to each other, and tell no outcomes. That is the default of a node with a
// store and no broker.
func directly(c *node.Config) { c.BrokerURL, c.NoticesOff = "", false }

// BenchmarkFullDirect measures what a node on Postgres alone does beside one that has RabbitMQ too, each with its defaults, and beside
// River on the same Postgres. They take turns.
func BenchmarkFullDirect(b *testing.B) {
	f := startFull(b)
	for round := range 5 {
		b.Run(fmt.Sprint("BulkDirect", round+1), func(b *testing.B) { toldBulk(b, f, directly) })
		b.Run(fmt.Sprint("BulkBroker", round+1), func(b *testing.B) { toldBulk(b, f, tellingDefaults) })
	}
	for round := range 5 {
		b.Run(fmt.Sprint("CallersDirect", round+1), func(b *testing.B) { callers(b, f.on(b, directly), f, false) })
		b.Run(fmt.Sprint("CallersBroker", round+1), func(b *testing.B) { callers(b, f.on(b, tellingDefaults), f, false) })
	}
	for round := range 5 {
		b.Run(fmt.Sprint("StartDirect", round+1), func(b *testing.B) { startLatency(b, f.on(b, directly)) })
		b.Run(fmt.Sprint("StartBroker", round+1), func(b *testing.B) { startLatency(b, f.on(b, tellingDefaults)) })
	}
	b.Run("BulkBeside", func(b *testing.B) {
		besideRiver(b, f, "bulk", func(b *testing.B) float64 { return toldBulk(b, f, directly) })
	})
	b.Run("CallersBeside", func(b *testing.B) {
		besideRiver(b, f, "callers", func(b *testing.B) float64 { return callers(b, f.on(b, directly), f, false) })
	})
}
