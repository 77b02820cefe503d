package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// BenchmarkDecide decides the three changes of the straight path.
func BenchmarkDecide(b *testing.B) {
	rows := []store.Row{rowIn(b, messages.Requested), rowIn(b, messages.Scheduled), rowIn(b, messages.Running)}
	changes := []store.Change{decidedChange("place", &rows[0]), decidedChange("claim", &rows[1]), decidedChange("finish", &rows[2])}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d := store.Decide(&rows[i%3], nil, changes[i%3], decidedAt)
		if d.Verdict != store.Applied {
			require.NoError(b, d.Err)
		}
	}
}
