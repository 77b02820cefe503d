package keyframe

import "slices"

// Newest are the pools of the nodes that are there after the keyframes of some minutes, by node: of each name the newest keyframe counts, which
// is that of its last boot, and a node that had begun to stop has none.
func Newest(frames []Stored) (pools []Pool) {
	slices.SortStableFunc(frames, func(a, b Stored) int { return b.At.Compare(a.At) })
	seen := map[string]bool{}
	for _, f := range frames {
		if !seen[f.Frame.Node] && !f.Frame.Last {
			pools = append(pools, f.Frame.Pools...)
		}
		seen[f.Frame.Node] = true
	}
	return pools
}
