package operate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// The workers over time are what the nodes noted last before the end of each point.
func TestWorkersOverTime(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b, again := c.join("a", "shell", 1), c.join("b", "shell", 1), c.join("b", "shell", 1)
	now, err := c.store.Now(t.Context())
	require.NoError(t, err)
	begin := now.Truncate(5 * time.Minute).Add(-30 * time.Minute)
	note := func(n *node, minute float64, last bool, waiting int, states ...lifecycle.State) {
		p := keyframe.Pool{Name: "shell", Waiting: waiting}
		for _, s := range states {
			p.Slots = append(p.Slots, keyframe.Slot{Used: true, State: s}, keyframe.Slot{})
		}
		raw, err := keyframe.Encode(&keyframe.Frame{Node: n.cfg.Name, Last: last, Pools: []keyframe.Pool{p, {Name: "other", Slots: p.Slots[:1]}}})
		require.NoError(t, err)
		require.NoError(t, c.store.SaveKeyframe(t.Context(), store.Keyframe{Incarnation: n.cfg.Incarnation, At: begin.Add(time.Duration(minute * float64(time.Minute))), Frame: raw}))
	}
	note(a, 1, false, 9, lifecycle.Ready, lifecycle.Busy) // there is a newer one of the point
	note(a, 4, false, 3, lifecycle.Busy, lifecycle.Busy)
	note(b, 3, false, 0, lifecycle.Ready)
	note(a, 9, false, 2, lifecycle.Busy, lifecycle.Ready)
	note(b, 7, false, 0, lifecycle.Ready)
	note(b, 8, true, 0, lifecycle.Ready) // it stops
	note(again, 12, false, 0, lifecycle.Busy)
	note(b, 11, false, 0, lifecycle.Ready, lifecycle.Ready) // killed, and started again
	require.NoError(t, c.store.SaveKeyframe(t.Context(), store.Keyframe{Incarnation: a.cfg.Incarnation, At: begin.Add(14 * time.Minute), Frame: []byte("none")}))
	ask := func(metric rollup.Metric, by rollup.By, pools ...string) map[string][]int64 {
		s, err := a.Series(t.Context(), rollup.Query{From: begin, To: begin.Add(20 * time.Minute), By: by, Metric: metric, Pools: pools, Points: 600})
		require.NoError(t, err)
		require.Equal(t, 300, s.StepSeconds, "a keyframe is stored as often")
		require.Equal(t, []int{3}, s.Unknown, "nothing that can be read was noted")
		lines := map[string][]int64{}
		for _, l := range s.Series {
			lines[l.Key] = l.N
		}
		return lines
	}
	require.Equal(t, map[string][]int64{"busy": {2, 1, 1, 0}, "ready": {1, 1, 0, 0}}, ask(rollup.MetricSlots, rollup.ByState, "shell"))
	require.Equal(t, map[string][]int64{"shell": {2, 1, 1, 0}, "other": {1, 1, 1, 0}}, ask(rollup.MetricBusy, rollup.ByPool))
	require.Equal(t, map[string][]int64{"shell": {2, 1, 1, 0}, "other": {1, 1, 1, 0}}, ask(rollup.MetricBusy, rollup.ByPool, "shell", "other", "none"))
	require.Equal(t, map[string][]int64{rollup.All: {3, 2, 0, 0}}, ask(rollup.MetricWaiting, rollup.ByAll, "shell"))

	a.cfg.Recorded = time.Hour
	s, err := a.Series(t.Context(), rollup.Query{From: now.Add(-time.Minute), To: now.Add(time.Hour), By: rollup.ByAll, Metric: rollup.MetricSlots, Points: 600})
	require.NoError(t, err)
	require.WithinDuration(t, now, s.Until, time.Minute)
	require.WithinDuration(t, now.Add(-time.Hour), *s.KnownFrom, time.Minute)
	require.Contains(t, s.Unknown, 0)
	require.Less(t, len(s.Unknown), 3, "no point behind now is one")

	fresh := now.Add(-time.Second).Truncate(time.Millisecond)
	note(a, fresh.Sub(begin).Minutes(), false, 1, lifecycle.Busy)
	s, err = a.Series(t.Context(), rollup.Query{From: now.Truncate(5 * time.Minute), To: now.Add(time.Hour), By: rollup.ByAll, Metric: rollup.MetricWaiting, Points: 600})
	require.NoError(t, err)
	require.Empty(t, s.Unknown)
	require.WithinDuration(t, fresh, s.Until, time.Second/2, "later is not noted yet")
	s, err = a.Series(t.Context(), rollup.Query{From: now.Truncate(5 * time.Minute), To: now, By: rollup.ByAll, Metric: rollup.MetricWaiting, Points: 600})
	require.NoError(t, err)
	require.WithinDuration(t, fresh, s.Until, time.Second/2, "nor where the question ends now, by another clock")
}
