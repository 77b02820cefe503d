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

// Waiting is how many executions the router of each pool held, by the pool's name. Of several nodes that of the newest epoch that leads
// counts. Beside it, or without one, a node that routes for itself holds the same executions: those do not add up.
func Waiting(pools []Pool) map[string]int {
	lead, most := map[string]*Pool{}, map[string]int{}
	for i := range pools {
		p := &pools[i]
		if was := lead[p.Name]; p.Mode == leading && (was == nil || p.Epoch > was.Epoch) {
			lead[p.Name] = p
		}
		most[p.Name] = max(most[p.Name], p.Waiting)
	}
	for name, p := range lead {
		most[name] = p.Waiting
	}
	return most
}

// leading is what lead.Leading is called in a keyframe.
const leading = "leading"
