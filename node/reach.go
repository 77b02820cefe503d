package node

import (
	"context"
	"fmt"
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

// saw takes what membership saw in the store, which it asked at asked, and says how this node stands with everybody now.
func (n *Node) saw(asked time.Time, away bool, others []membership.Other, nodes []store.Node) map[messages.Incarnation]membership.Standing {
	if away {
		n.sights.lost()
	} else {
		n.sights.keep(asked, n.incarnation, others, nodes)
	}
	known := n.knownPeers()
	standings := map[messages.Incarnation]membership.Standing{}
	for _, other := range n.sights.nodes() {
		standings[other.Incarnation] = n.standing(other.Incarnation, known[other.Incarnation])
	}
	n.asking.keep(func(inc messages.Incarnation) bool { _, lives := standings[inc]; return lives })
	return standings
}

func (n *Node) knownPeers() map[messages.Incarnation]*peers.Peer {
	if n.peers == nil {
		return nil
	}
	known := map[messages.Incarnation]*peers.Peer{}
	for _, p := range n.peers.Peers() {
		known[p.Incarnation] = &p
	}
	return known
}

// standingWith says how this node stands with one other.
func (n *Node) standingWith(inc messages.Incarnation) membership.Standing {
	return n.standing(inc, n.knownPeers()[inc])
}

func (n *Node) standing(inc messages.Incarnation, p *peers.Peer) membership.Standing {
	if n.sights.joining(inc) {
		return membership.Standing{Reach: membership.NotHeard, Why: "it has joined since this node looked last"}
	}
	sight := membership.Sight{Peer: sightOf(p)}
	var silent time.Time
	if p != nil {
		silent, sight.Renews = p.Suspect, p.Renews
	}
	sight.Beats = n.sights.beats(inc, silent, n.cfg.BeatEvery)
	reach := sight.Reach()
	why := "it " + reach.Sentence()
	switch {
	case reach == membership.Reached && p.Told && !sight.Renews:
		why = "it answers, and said that it does not, or not for long, renew its lease; that lease has not run out"
	case !silent.IsZero():
		why += fmt.Sprintf(" (silent since %s: %s)", silent.UTC().Format(time.RFC3339), p.Why)
	case reach == membership.Lost:
	case p == nil && n.peers == nil:
		why += " (this node listens for no peers: node.peers_listen)"
	case p == nil:
		why += " (it tells no address for peers that can be dialled from here: node.peers_listen there)"
	}
	return membership.Standing{Reach: reach, Why: why}
}

// directoryTime bounds the question who there is; what membership knows answers it otherwise.
const directoryTime = 2 * time.Second

// directory is every known incarnation, newest first, this one included: as the store has them, or, while it does not
// answer, as it showed them last.
func (n *Node) directory(ctx context.Context) []store.Node {
	if n.gate() == nil {
		limited, cancel := context.WithTimeout(ctx, directoryTime)
		defer cancel()
		if rows, err := n.store.ListNodes(limited); err == nil {
			return rows
		}
		n.servers.suspect()
	}
	own := store.Node{
		Incarnation: n.incarnation, Name: n.cfg.Name, Version: n.cfg.Version, State: store.NodeActive,
		Address: n.Addr(),
	}
	own.PeerAddress, own.PeerScope = n.PeerAddress()
	own.PeerProof = n.peerProof()
	if n.draining.Load() {
		own.State = store.NodeDraining
	}
	return append([]store.Node{own}, n.sights.nodes()...)
}
