package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Join records a new incarnation. The store's lock ensures that no other process uses it, so every other incarnation is
// marked dead in the same transaction.
func (s *Store) Join(ctx context.Context, n store.Node, lease time.Duration) error {
	return s.write(ctx, "join node", 1, func(w *writer) error {
		if err := w.exec("UPDATE node SET state = 'dead' WHERE incarnation <> ? AND state <> 'dead'", n.Incarnation[:]); err != nil {
			return err
		}
		if err := w.exec("UPDATE worker SET active = 0 WHERE incarnation <> ? AND active = 1", n.Incarnation[:]); err != nil {
			return err
		}
		started := n.StartedAt
		if started.IsZero() {
			started = w.now
		}
		changed, err := w.c.exec(`INSERT INTO node (incarnation, name, version, state, cordoned, started_at, beat_at, lease_until, address, peer_address, peer_scope, peer_proof)
 VALUES (?, ?, ?, 'active', ?, ?, ?, ?, ?, ?, ?, ?)
 ON CONFLICT (incarnation) DO UPDATE SET name = excluded.name, version = excluded.version, state = 'active', cordoned = excluded.cordoned,
  started_at = excluded.started_at, beat_at = excluded.beat_at, lease_until = excluded.lease_until, address = excluded.address,
  peer_address = excluded.peer_address, peer_scope = excluded.peer_scope, peer_proof = excluded.peer_proof WHERE node.state <> 'dead'`,
			n.Incarnation[:], n.Name, n.Version, flags(n.Cordoned), micros(started), micros(w.now), micros(w.now.Add(lease)), n.Address,
			n.PeerAddress, n.PeerScope, int64(n.PeerProof))
		return declared(n.Incarnation, changed, err)
	})
}

// changeNode runs an UPDATE of one node. If no row matches, it returns ErrNotFound.
func (w *writer) changeNode(sql string, inc messages.Incarnation, args ...any) error {
	n, err := w.c.exec(sql, append(args, inc[:])...)
	return declared(inc, n, err)
}

// declared returns the error of a statement that should have changed the row of an incarnation.
func declared(inc messages.Incarnation, changed int64, err error) error {
	if err == nil && changed == 0 {
		err = ofCall(fmt.Errorf("incarnation %s: %w or declared dead", inc, store.ErrNotFound))
	}
	return err
}

// Beat records when the incarnation was last seen. Its lease is stored for operators and never evaluated: the lock on
// the file ensures that it is alone.
func (s *Store) Beat(ctx context.Context, inc messages.Incarnation, lease time.Duration) (store.Pulse, error) {
	var p store.Pulse
	err := s.write(ctx, "beat", 1, func(w *writer) error {
		p.At, p.Lease = w.now, w.now.Add(lease)
		return w.changeNode("UPDATE node SET beat_at = ?, lease_until = ? WHERE state <> 'dead' AND incarnation = ?",
			inc, micros(w.now), micros(p.Lease))
	})
	if err != nil {
		return store.Pulse{}, err
	}
	nodes, err := s.ListNodes(ctx)
	p.Nodes = slices.DeleteFunc(nodes, func(n store.Node) bool { return n.State == store.NodeDead })
	return p, err
}

// DeclareDead declares no node dead: Join did.
func (s *Store) DeclareDead(context.Context, messages.Incarnation, time.Duration) ([]store.Node, error) {
	return nil, nil
}

// DeclareGone declares nobody: Join has.
func (s *Store) DeclareGone(context.Context, messages.Incarnation, time.Duration, []store.Gone) ([]store.Node, error) {
	return nil, nil
}

// SetNode changes an incarnation's state; one that is not active gives up what it leads. Dead is final.
func (s *Store) SetNode(ctx context.Context, inc messages.Incarnation, state store.NodeState) error {
	return s.write(ctx, "set node state", 1, func(w *writer) error {
		switch state {
		case store.NodeActive, store.NodeDraining, store.NodeDead:
		default:
			return ofCall(fmt.Errorf("node state %q: %w: want active, draining or dead", state, store.ErrInvalid))
		}
		err := w.changeNode("UPDATE node SET state = ?1 WHERE (state <> 'dead' OR ?1 = 'dead') AND incarnation = ?2", inc, string(state))
		if err != nil || state == store.NodeActive {
			return err
		}
		if err := w.exec("UPDATE worker SET active = 0 WHERE incarnation = ? AND active = 1", inc[:]); err != nil {
			return err
		}
		return w.resign(inc, nil)
	})
}

// CordonNode records that an operator cordons the node, or ends that.
func (s *Store) CordonNode(ctx context.Context, inc messages.Incarnation, cordoned bool) error {
	return s.write(ctx, "cordon node", 1, func(w *writer) error {
		return w.changeNode("UPDATE node SET cordoned = ? WHERE incarnation = ?", inc, flags(cordoned))
	})
}

// CordonPool records that an operator cordons the pool, or ends that.
func (s *Store) CordonPool(ctx context.Context, pool string, cordoned bool) error {
	return s.write(ctx, "cordon pool", 1, func(w *writer) error {
		if cordoned {
			return w.exec("INSERT OR IGNORE INTO pool_cordon (pool) VALUES (?)", pool)
		}
		return w.exec("DELETE FROM pool_cordon WHERE pool = ?", pool)
	})
}

// CordonedPools returns the cordoned pools, by name.
func (s *Store) CordonedPools(ctx context.Context) ([]string, error) {
	var out []string
	err := s.read(ctx, "list cordoned pools", func(c *conn) error {
		return c.query("SELECT pool FROM pool_cordon ORDER BY pool", func(row row) error {
			v := scanner{row: row}
			out = append(out, v.text())
			return v.err
		})
	})
	return out, err
}

// ListNodes returns every known incarnation, newest first.
func (s *Store) ListNodes(ctx context.Context) ([]store.Node, error) {
	var out []store.Node
	err := s.read(ctx, "list nodes", func(c *conn) error {
		return c.query(`SELECT incarnation, name, version, state, cordoned, started_at, beat_at, lease_until, address, peer_address, peer_scope, peer_proof FROM node
 ORDER BY started_at DESC, incarnation DESC`, func(row row) error {
			v := scanner{row: row}
			var n store.Node
			v.id((*[16]byte)(&n.Incarnation))
			n.Name, n.Version, n.State, n.Cordoned = v.text(), v.text(), store.NodeState(v.text()), v.boolean()
			n.StartedAt, n.BeatAt, n.LeaseUntil, n.Address, n.PeerAddress, n.PeerScope = v.time(), v.time(), v.time(), v.text(), v.text(), v.text()
			n.PeerProof = int(v.integer())
			out = append(out, n)
			return v.err
		})
	})
	return out, err
}
