package workers

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
)

// losses are the workers that earlier boots of this node lost as they died, until the slots of this boot are ready: it counts how
// long each was away, once. They are read from the store, since nobody else need have seen the node die: with the embedded
// store there is nobody, and a pool's router may die with it.
type losses struct {
	known   bool // all earlier boots have been judged
	reading bool
	// again is when a read that failed is repeated; zero: not before another node is declared dead.
	again time.Time
	since map[messages.Slot]time.Time // away since then, and not back yet
	// back is when slots became ready first, until it is known whether they were away.
	back map[messages.Slot]time.Time
}

// Bounds of what is read. A node that was away for longer was taken away on purpose; one that died so many times before its
// workers were ready has counted for enough.
const (
	lossAge   = 24 * time.Hour
	bootsMax  = 8
	lossAgain = 10 * time.Second
)

// lossesRead is what was read of earlier boots.
type lossesRead struct {
	err   error
	since map[messages.Slot]time.Time
	known bool
}

// boot is an earlier boot of this node that died: its last beat, and how its workers stood.
type boot struct {
	beat    time.Time
	workers []store.Worker
}

// earlierBoots are those that an incarnation followed under the same name, the newest first. Not known: one of them is not
// declared dead yet, and may as well live beside this one.
func earlierBoots(nodes []store.Node, self messages.Incarnation) (earlier []store.Node, known bool) {
	at := slices.IndexFunc(nodes, func(n store.Node) bool { return n.Incarnation == self })
	if at < 0 {
		return nil, false
	}
	me := &nodes[at]
	for i := range nodes {
		n := &nodes[i]
		if n.Name == me.Name && n.StartedAt.Before(me.StartedAt) && me.StartedAt.Sub(n.BeatAt) <= lossAge {
			earlier = append(earlier, *n)
		}
	}
	slices.SortFunc(earlier, func(a, b store.Node) int { return b.StartedAt.Compare(a.StartedAt) })
	for i := range earlier {
		switch n := &earlier[i]; {
		case n.State != store.NodeDead:
			return nil, false
		case n.BeatAt.After(me.StartedAt): // it lived beside this one, and what was before it is its own
			return earlier[:i], true
		}
	}
	return earlier[:min(len(earlier), bootsMax)], true
}

// awaySince says since when the slots of a pool have been away: since the last beat of the newest boot that had it ready. A slot
// that was ended in order, or that the boot after did not have, was not lost. Undecided: of a slot that was still starting in
// the oldest of these boots, one before it knows more.
func awaySince(boots []boot, pool string) (since map[messages.Slot]time.Time, undecided bool) {
	since = map[messages.Slot]time.Time{}
	var open map[messages.Slot]bool // all, in the newest
	for i, b := range boots {
		starting := map[messages.Slot]bool{}
		for _, w := range b.workers {
			slot := w.Key.Slot
			if w.Key.Pool != pool || i > 0 && !open[slot] {
				continue
			}
			switch w.State {
			case lifecycle.Initializing.String():
				starting[slot] = true
			case lifecycle.Ready.String(), lifecycle.Busy.String(), lifecycle.Degraded.String():
				since[slot] = b.beat
			}
		}
		open = starting
	}
	return since, len(open) > 0
}

// read reads what earlier boots lost.
func (l *losses) read(s *part.Shared) {
	if l.known || l.reading {
		return
	}
	l.reading, l.again = true, time.Time{}
	s.World.Beside(part.StoreTimeout, func(ctx context.Context) func() {
		m := &lossesRead{}
		m.since, m.known, m.err = earlierLosses(ctx, s)
		return func() { l.taken(s, m) }
	})
}

func earlierLosses(ctx context.Context, s *part.Shared) (since map[messages.Slot]time.Time, known bool, err error) {
	nodes, err := s.Config.Store.ListNodes(ctx)
	if err != nil {
		return nil, false, err
	}
	earlier, known := earlierBoots(nodes, s.Config.Incarnation)
	if !known {
		return nil, false, nil
	}
	var boots []boot
	for undecided := true; undecided && len(boots) < len(earlier); {
		n := &earlier[len(boots)]
		workers, err := s.Config.Store.EndedWorkers(ctx, n.Incarnation)
		if err != nil {
			return nil, false, err
		}
		boots = append(boots, boot{beat: s.Config.Clock.Noted(n.BeatAt), workers: workers})
		since, undecided = awaySince(boots, s.Config.Name)
	}
	return since, true, nil
}

// taken counts the slots that are back already; the others count when they are.
func (l *losses) taken(s *part.Shared, m *lossesRead) {
	l.reading = false
	if m.err != nil {
		s.Config.Logger.Debug("workers of earlier boots not read; they are read again", "error", m.err)
		l.again = s.World.Now().Add(lossAgain)
		return
	}
	if !m.known || l.known {
		return
	}
	l.known, l.since = true, m.since
	maps.DeleteFunc(l.since, func(slot messages.Slot, _ time.Time) bool { // what grows with the work comes back with it
		return int(slot) >= s.Config.Workers
	})
	for slot, at := range l.back {
		l.returned(s, slot, at)
	}
	l.back = nil
}

// due repeats a read that failed.
func (l *losses) due(s *part.Shared, now time.Time) {
	if again := l.again; !again.IsZero() && !now.Before(again) {
		l.read(s)
	}
}

// returned counts the downtime of a slot that an earlier boot lost, when it is ready for the first time.
func (l *losses) returned(s *part.Shared, slot messages.Slot, at time.Time) {
	if !l.known {
		if _, earlier := l.back[slot]; !earlier {
			if l.back == nil {
				l.back = map[messages.Slot]time.Time{}
			}
			l.back[slot] = at
		}
		return
	}
	since, lost := l.since[slot]
	if !lost {
		return
	}
	delete(l.since, slot)
	if s.Config.Hooks.Away != nil {
		s.Config.Hooks.Away(s.Config.Name, max(0, at.Sub(since)))
	}
}
