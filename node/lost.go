package node

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/alerts"
	"github.com/troupe-run/troupe/store"
)

// Bounds of the search for losses that were found late, as after an outage of the store.
const (
	lostLate    = 24 * time.Hour // for how long after a node's last lease
	lostLateMax = 10             // nodes, the newest
)

// lost reads how many nodes were lost lately. All nodes read it from the store, so that one which starts after the loss knows of it too.
func (c *liveCollector) lost(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) {
	if n, err := lostLately(ctx, c.of.store, c.of.clock.Now()); err == nil {
		gauge(c.nodesLost, float64(n))
	}
}

// lostLately counts the incarnations that ended otherwise than in order and whose lease ran out lately, or that were declared dead lately.
func lostLately(ctx context.Context, s store.Store, now time.Time) (count int, err error) {
	nodes, err := s.ListNodes(ctx)
	if err != nil {
		return 0, err
	}
	since := now.Add(-alerts.LostFor)
	var earlier []store.Node // they may have been declared dead only now
	for i := range nodes {
		switch n := &nodes[i]; {
		case n.State != store.NodeDead || n.Ended == "" || n.Ended == store.EndStopped:
		case n.LeaseUntil.After(since):
			count++
		case n.LeaseUntil.After(now.Add(-lostLate)):
			earlier = append(earlier, *n)
		}
	}
	slices.SortFunc(earlier, func(a, b store.Node) int { return b.LeaseUntil.Compare(a.LeaseUntil) })
	for i := range earlier[:min(len(earlier), lostLateMax)] {
		page, err := s.ReadJournal(ctx, store.JournalQuery{
			Kinds: []messages.JournalKind{messages.JournalNode}, Whats: []string{"dead"}, Subjects: []string{earlier[i].Incarnation.String()}, From: since, Limit: 1,
		})
		if err != nil {
			return 0, err
		}
		count += len(page.Entries)
	}
	return count, nil
}
