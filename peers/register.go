package peers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// registerAge is how long a row is believed that says that a node proves nothing, before the store is asked again.
const registerAge = 10 * time.Second

// register is the rows of the nodes as the store had them when it was last asked, for those that the directory does not know: one
// that has just joined, and one that has ended and asks whether it has.
type register struct {
	reading sync.Mutex // held by who asks

	mu     sync.Mutex
	source Source // nil: there is none yet
	rows   map[messages.Incarnation]store.Node
	asked  time.Time
	told   time.Time // when the store answered last, with the rows
}

func (r *register) use(source Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.source = source
}

// read asks the store for all nodes, unless it was asked within the time before. What it does not answer leaves what is known.
func (r *register) read(ctx context.Context, least time.Duration) {
	since := time.Now().Add(-least)
	r.reading.Lock()
	defer r.reading.Unlock()
	r.mu.Lock()
	source, recent := r.source, r.asked.After(since)
	if !recent {
		r.asked = time.Now()
	}
	r.mu.Unlock()
	if source == nil || recent {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime) // others wait for the answer, too
	defer cancel()
	began := time.Now()
	list, err := source.ListNodes(ctx)
	if err != nil {
		return
	}
	rows := make(map[messages.Incarnation]store.Node, len(list))
	for i := range list {
		rows[list[i].Incarnation] = list[i]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows, r.told = rows, began
}

func (r *register) row(inc messages.Incarnation) (store.Node, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row, ok := r.rows[inc]
	return row, ok
}

// at are the rows of an address that nobody has declared dead, and whether they are recent. Those that say that a node proves nothing
// are left out once they are older than limit: the store has been away since, and who sits there now may be anybody.
func (r *register) at(address string, limit time.Duration) (rows []store.Node, recent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	believed := time.Since(r.told) < limit
	for inc := range r.rows {
		row := r.rows[inc]
		if row.PeerAddress == address && row.State != store.NodeDead && (row.PeerProof > 0 || believed) {
			rows = append(rows, row)
		}
	}
	return rows, time.Since(r.asked) < registerAge
}

func (r *register) forget(inc messages.Incarnation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.rows, inc)
}

// stranger reports whether the store does not know this incarnation at this address. It may ask the store, so whoever is asked
// about has proven itself.
func (n *Network) stranger(ctx context.Context, inc messages.Incarnation, address string) bool {
	n.mu.Lock()
	p := n.peers[inc]
	known := p != nil && p.address == address
	n.mu.Unlock()
	if known {
		return false
	}
	row, ok := n.register.row(inc)
	if !ok {
		n.register.read(ctx, 0)
		row, ok = n.register.row(inc)
	}
	return !ok || row.PeerAddress != address || inc == n.cfg.Own || !n.shares(address, row.PeerScope)
}

// olderAt are the incarnations at an address that live and prove nothing, by their rows in the store. It asks the store no more
// than once in rereadLeast, whoever claims the address.
func (n *Network) olderAt(ctx context.Context, address string) []messages.Incarnation {
	if found := n.olderKnown(address); len(found) > 0 {
		return found
	}
	rows, recent := n.register.at(address, n.cfg.Believed)
	if len(rows) == 0 || !recent {
		n.register.read(ctx, rereadLeast)
		rows, _ = n.register.at(address, n.cfg.Believed)
	}
	var found []messages.Incarnation
	for i := range rows {
		if rows[i].PeerProof == 0 && rows[i].Incarnation != n.cfg.Own && n.shares(address, rows[i].PeerScope) {
			found = append(found, rows[i].Incarnation)
		}
	}
	return found
}

func (n *Network) olderKnown(address string) (found []messages.Incarnation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for inc, p := range n.peers {
		if p.address == address && p.proof == 0 {
			found = append(found, inc)
		}
	}
	return found
}

// demands reports whether a peer at an address has to prove itself: unless all that are known there are of an older release.
func (n *Network) demands(address string) bool {
	var proofs []int
	n.mu.Lock()
	for _, p := range n.peers {
		if p.address == address {
			proofs = append(proofs, p.proof)
		}
	}
	n.mu.Unlock()
	if len(proofs) == 0 {
		rows, _ := n.register.at(address, n.cfg.Believed)
		for i := range rows {
			proofs = append(proofs, rows[i].PeerProof)
		}
	}
	return len(proofs) == 0 || slices.Max(proofs) > 0
}
