package supervisor

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
)

// trace is what the answer to the incarnation's own renewal shows of another's process.
func trace(n *store.Node, own messages.Incarnation, p store.Pulse) membership.Trace {
	t := membership.Trace{
		Leaving: n.State != store.NodeActive, Locks: !n.PresentSince.IsZero(), Held: n.Present,
		Silence: p.At.Sub(n.BeatAt), Lease: n.LeaseUntil.Sub(n.BeatAt),
	}
	for i := range p.Nodes {
		o := &p.Nodes[i]
		if !o.Present || o.PresentSince.IsZero() {
			continue
		}
		if o.Incarnation == own {
			t.OwnLock = p.At.Sub(o.PresentSince)
		}
		if n.PeerAddress != "" && o.PeerAddress == n.PeerAddress && o.PeerScope == n.PeerScope && o.StartedAt.After(n.BeatAt) {
			t.Replaced = true
		}
	}
	return t
}

// hearLosses brings the news of connections to peers that ended.
func (m *Member) hearLosses() {
	m.world.Beside(0, func(ctx context.Context) func() {
		select {
		case <-m.cfg.Lost:
			return func() {
				m.hearLosses()
				m.step(membership.PeerLost{})
			}
		case <-ctx.Done():
			return nil
		}
	})
}

// declare declares dead whose lease has run out.
func (m *Member) declare(ctx context.Context) *pulsed {
	return declared(m.cfg.Store.DeclareDead(ctx, m.cfg.Incarnation, m.cfg.LeaseTime))
}

// declareGone declares dead whose process has ended.
func (m *Member) declareGone(gone []membership.Gone) {
	rows := m.claim(gone)
	m.beside(m.cfg.LeaseTime/2, func(ctx context.Context) *pulsed {
		return declared(m.cfg.Store.DeclareGone(ctx, m.cfg.Incarnation, m.cfg.LeaseTime, rows))
	})
}

// claim notes how those have ended that this node is about to declare dead: a beat may miss them before the store has answered.
func (m *Member) claim(gone []membership.Gone) []store.Gone {
	rows := make([]store.Gone, len(gone))
	for i, g := range gone {
		rows[i] = store.Gone{Incarnation: g.Incarnation, BeatAt: g.Renewed, Ended: store.EndRefused}
		if g.End == membership.AddressTaken {
			rows[i].Ended = store.EndReplaced
		}
		m.claimed[g.Incarnation] = rows[i].Ended
	}
	return rows
}

func declared(dead []store.Node, err error) *pulsed {
	e := membership.Declared{}
	for i := range dead {
		e.Dead = append(e.Dead, dead[i].Incarnation)
	}
	return &pulsed{event: e, dead: dead, err: err}
}

// endText says how another incarnation ended, as far as this node knows.
func endText(end store.NodeEnd) string {
	if end == "" {
		return "it has stopped, or another node declared it dead"
	}
	return end.Sentence()
}

// knockTime bounds one question at the addresses of suspects: what has not refused by then does not count.
const knockTime = 200 * time.Millisecond

// knock asks whether anything listens at the addresses of suspects.
func (m *Member) knock(suspects []messages.Incarnation) {
	ask := m.cfg.Refuses
	m.beside(knockTime, func(ctx context.Context) *pulsed {
		e := membership.Knocked{Asked: suspects}
		if ask != nil {
			e.Refused = ask(ctx, suspects)
		}
		return &pulsed{event: e}
	})
}
