package peers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// registerAge is how long a row that says that a node gives no proof is believed, before the store is read again.
const registerAge = 10 * time.Second

// register holds the rows of the nodes as of the last read from the store. It serves for nodes that the directory does
// not know: one that has just joined, and one that was declared dead and asks about that.
type register struct {
	reading sync.Mutex // held during a read

	mu     sync.Mutex
	source Source // nil: none yet
	rows   map[messages.Incarnation]store.Node
	asked  time.Time
	told   time.Time // time of the last answer
}

func (r *register) use(source Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.source = source
}

// read reads all nodes from the store, unless the last read is more recent than least. An error leaves the rows
// unchanged.
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime) // others wait for the answer too
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

// at returns the rows of live nodes at an address, and whether they are recent. It omits rows of nodes without a proof
// once the rows are older than limit: the store has been unavailable since, and any program may have the address now.
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

// stranger reports whether the store does not know this incarnation at this address. It may read the store, so call it
// only for a peer that has proven itself.
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

// olderAt returns the live incarnations at an address that give no proof, by their rows in the store. It reads the
// store at most once in rereadLeast.
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

// demands reports whether a peer at an address must prove itself. It need not if all known incarnations there run an
// older release.
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
