package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The work of a pool ends only after rounds in a row that found nobody who serves it, over more than a heartbeat interval.
func TestWhenAnUnservedPoolsWorkEnds(t *testing.T) {
	t.Parallel()
	type step struct {
		at    time.Duration // seconds
		late  bool
		every time.Duration
		failed,
		want bool
	}
	const beat, slow = 10, 60
	for name, steps := range map[string][]step{
		"the first round":              {{at: 0, every: beat}},
		"before an interval":           {{at: 0, every: beat}, {at: 9, every: beat}},
		"as a heartbeat is written":    {{at: 0, every: beat}, {at: 11, every: beat}},
		"after an interval and more":   {{at: 0, every: beat}, {at: 9, every: beat}, {at: 18, every: beat, want: true}, {at: 28, every: beat, want: true}},
		"a node that beats seldom":     {{at: 0, every: slow}, {at: 50, every: slow}, {at: 80, every: slow}, {at: 90, every: slow, want: true}},
		"heartbeats that are late":     {{at: 0, every: beat, late: true}, {at: 20, every: beat, late: true}, {at: 40, every: beat, late: true}},
		"the lease ran out":            {{at: 0, every: beat, late: true}, {at: 20, every: beat}, {at: 30, every: beat}, {at: 40, every: beat, want: true}},
		"late again between":           {{at: 0, every: beat}, {at: 9, every: beat, late: true}, {at: 18, every: beat}, {at: 34, every: beat, want: true}},
		"a round failed between":       {{at: 0, every: beat}, {at: 9, every: beat}, {at: 12, failed: true}, {at: 20, every: beat}, {at: 30, every: beat}, {at: 40, every: beat, want: true}},
		"a round stood in an outage":   {{at: 0, every: beat}, {at: 31, every: beat}, {at: 41, every: beat}, {at: 51, every: beat, want: true}},
		"rounds that are slow by load": {{at: 0, every: beat}, {at: 29, every: beat, want: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, start := &unassigned{}, time.Now()
			for _, s := range steps {
				if s.failed {
					u.since = time.Time{}
					continue
				}
				f := findings{late: s.late, every: s.every * time.Second}
				require.Equal(t, s.want, u.round(start.Add(s.at*time.Second), f), "after %d s", s.at)
			}
		})
	}
}
