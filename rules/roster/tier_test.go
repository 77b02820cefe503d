package roster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/placement"
)

// The tier of a worker follows from all that its node says of it: every combination, against the contract's rules one by one.
func TestTiersOfWorkers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	for _, grade := range []health.Grade{health.Unknown, health.Healthy, health.Degraded, health.Unhealthy} {
		for n := range 1 << 5 {
			broken, starting, stale, active, accepts := n&1 > 0, n&2 > 0, n&4 > 0, n&8 > 0, n&16 > 0
			if starting && accepts {
				continue // what is starting accepts nothing
			}
			seen := WorkerSeen{
				Worker: slotKey(0), ID: "n/p/w0", Generation: 1, Broken: broken, Starting: starting, Active: active, Accepts: accepts,
				Grade: grade, BeatAt: now, BeatEvery: 10 * time.Second,
			}
			if stale {
				seen.BeatAt = now.Add(-time.Hour)
			}
			r := New(Config{})
			r.Step(now, seen)
			got, known := r.table.Get(seen.Worker)
			require.True(t, known)

			well := grade == health.Healthy || grade == health.Degraded
			what := fmt.Sprintf("%+v", seen)
			takes := !broken && !starting && !stale && well && active && accepts
			present := !broken && (starting || !stale && well)
			require.Equal(t, takes, got.Tier == placement.Open || got.Tier == placement.LastResort, what)
			require.Equal(t, takes && grade == health.Healthy, got.Tier == placement.Open, what)
			require.Equal(t, present, got.Tier >= placement.Closed, what)
			if !present {
				require.Equal(t, active && accepts, got.Tier == placement.Missing, what)
			}
		}
	}
}
