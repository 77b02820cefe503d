package node_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// framesOf are the first and the last keyframe of each boot, in their order.
func (k *kit) framesOf() (frames []*keyframe.Frame) {
	var all []store.Keyframe
	for _, oldest := range []bool{true, false} {
		read, err := k.Adapter().ReadKeyframes(k.t.Context(), store.KeyframeQuery{Oldest: oldest})
		require.NoError(k.t, err)
		for _, f := range read {
			if !slices.ContainsFunc(all, func(o store.Keyframe) bool { return o.Incarnation == f.Incarnation && o.At.Equal(f.At) }) {
				all = append(all, f)
			}
		}
	}
	slices.SortFunc(all, func(a, b store.Keyframe) int { return a.At.Compare(b.At) })
	for i := range all {
		f, err := keyframe.Decode(all[i].Frame)
		require.NoError(k.t, err)
		frames = append(frames, f)
	}
	return frames
}

// A node stores what it is when it has started, and again when it begins to stop.
func TestANodeStoresWhatItIs(t *testing.T) {
	t.Parallel()
	data, pack := t.TempDir(), goPack(t, map[string]string{"noop": ""})
	settings := handle(map[string]messages.Handler{"noop": noop})
	k := boot(t, data, settings, pack)
	k.until("the first keyframe is stored", func() bool { return len(k.framesOf()) == 1 })
	first := k.framesOf()[0]
	require.Equal(t, "test", first.Node)
	require.False(t, first.Last || first.Draining || first.Cordoned)
	require.Len(t, first.Pools, 1)
	pool := first.Pools[0]
	require.Equal(t, []any{"go", messages.Runtime("go"), "alone"}, []any{pool.Name, pool.Runtime, pool.Mode})
	require.NotEmpty(t, pool.Slots)
	for _, s := range pool.Slots {
		require.Equal(t, []any{true, lifecycle.Ready, health.Healthy}, []any{s.Used, s.State, s.Grade})
		require.Positive(t, s.Generation)
	}
	require.NoError(t, k.stop())

	k = boot(t, data, settings, pack)
	frames := k.framesOf()
	require.GreaterOrEqual(t, len(frames), 2)
	require.True(t, frames[1].Last && frames[1].Draining)
	require.Len(t, frames[1].Pools[0].Slots, len(pool.Slots), "its workers have not ended yet")
}

// A node that is told so records nothing, and works as ever.
func TestANodeThatRecordsNothing(t *testing.T) {
	t.Parallel()
	data, pack := t.TempDir(), goPack(t, map[string]string{"noop": ""})
	settings := func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.Unrecorded = true
	}
	k := boot(t, data, settings, pack)
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
	require.NoError(t, k.stop())
	k = boot(t, data, settings, pack)
	require.Empty(t, k.framesOf())
	entries, err := k.Adapter().ReadJournal(t.Context(), store.JournalQuery{})
	require.NoError(t, err)
	require.Empty(t, entries.Entries)
	counts, err := k.Adapter().ReadRollups(t.Context(), store.RollupQuery{})
	require.NoError(t, err)
	require.Empty(t, counts.Rows)
}
