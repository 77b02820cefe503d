package bench

import (
	"sync"
	"testing"
)

// BenchmarkSQLite measures a node with the embedded store, durable, in the parts of BenchmarkFull.
func BenchmarkSQLite(b *testing.B) {
	program := sync.OnceValue(func() string { return binary(b) })
	embedded := func(b *testing.B) *member { return members(b, program(), 1)[0] }
	b.Run("RiverBulk", func(b *testing.B) { river(b, nil, "bulk") })
	b.Run("Bulk", func(b *testing.B) { bulk(b, nil, nil) })
	b.Run("RiverCallers", func(b *testing.B) { river(b, nil, "callers") })
	b.Run("Callers", func(b *testing.B) { callers(b, nil, nil, false) })
	b.Run("CallersHTTP", func(b *testing.B) { callersHTTP(b, nil, embedded) })
	b.Run("RiverStart", func(b *testing.B) { river(b, nil, "tuned") })
	b.Run("Start", func(b *testing.B) { startLatency(b, nil, nil) })
	b.Run("StartHTTP", func(b *testing.B) { startHTTP(b, embedded) })
	b.Run("Python", func(b *testing.B) { pythonEcho(b, nil, withPack(b, 8)) })
}
