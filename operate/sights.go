package operate

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
)

// sights is what the store showed of the other incarnations when it answered last.
type sights struct {
	mu   sync.Mutex
	away bool // it did not answer the last beat
	rows map[messages.Incarnation]*sighted
}

type sighted struct {
	node   store.Node
	lapsed bool
	beat   time.Time // when its last beat was made, or earlier, by this process's clock
}

// keep takes the answer to a beat that was asked for at asked. The own row has the store's time of that beat, so it says how old
// the others' beats were then, however late this node looks.
func (s *sights) keep(asked time.Time, own messages.Incarnation, others []membership.Other, nodes []store.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lapsed := map[messages.Incarnation]bool{}
	for _, o := range others {
		lapsed[o.Incarnation] = o.Lapsed
	}
	var at time.Time
	for i := range nodes {
		if nodes[i].Incarnation == own {
			at = nodes[i].BeatAt
		}
	}
	rows := make(map[messages.Incarnation]*sighted, len(nodes))
	for i := range nodes {
		inc := nodes[i].Incarnation
		if inc == own {
			continue
		}
		row := &sighted{node: nodes[i], lapsed: lapsed[inc], beat: asked.Add(-max(at.Sub(nodes[i].BeatAt), 0))}
		if before := s.rows[inc]; before != nil && (before.node.BeatAt.Equal(row.node.BeatAt) || before.beat.After(row.beat)) {
			row.beat = before.beat // one that took long is dated early, but never before the last
		}
		rows[inc] = row
	}
	s.away, s.rows = false, rows
}

// lost notes that the store did not answer.
func (s *sights) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = true
}

// nodes are the others as the store showed them last.
func (s *sights) nodes() []store.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]store.Node, 0, len(s.rows))
	for _, inc := range slices.SortedFunc(maps.Keys(s.rows), func(a, b messages.Incarnation) int { return slices.Compare(b[:], a[:]) }) {
		list = append(list, s.rows[inc].node)
	}
	return list
}

// lapsed reports whether the incarnation's lease had run out when the store answered last.
func (s *sights) lapsed(inc messages.Incarnation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.rows[inc]
	return row != nil && row.lapsed
}

// beats judges what the store shows of an incarnation that has been silent since a moment; zero: it is not. A beat that was sent
// before may be written for as long as one takes, so only a later one shows that the incarnation goes on.
func (s *sights) beats(inc messages.Incarnation, silent time.Time, every time.Duration) membership.BeatSight {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch row := s.rows[inc]; {
	case s.away || row == nil:
		return membership.BeatsUnknown
	case row.lapsed:
		return membership.BeatsOver
	case !silent.IsZero() && !row.beat.After(silent.Add(every+every/2)):
		return membership.BeatsDue
	}
	return membership.BeatsOn
}

// joining reports whether the incarnation is not known yet although the store is seen: it came after the last beat.
func (s *sights) joining(inc messages.Incarnation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.away && s.rows[inc] == nil
}

// sightOf is what the remoting shows of a peer; nil: it cannot be asked.
func sightOf(p *peers.Peer) membership.PeerSight {
	switch {
	case p == nil:
		return membership.NoPeer
	case !p.Suspect.IsZero():
		return membership.Silent
	case p.Heard:
		return membership.Answers
	}
	return membership.Unheard
}
