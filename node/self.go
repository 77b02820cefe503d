package node

import (
	"syscall"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

// newOperator makes what answers callers and operators of this node. The store, the pools and the network come while the node starts.
func (n *Node) newOperator() *operate.Operator {
	return operate.New(operate.Config{
		Name: n.cfg.Name, Incarnation: n.incarnation, Logger: n.logger, Store: n.store, Clock: &n.clock, Pools: n.pools, Self: self{n},
		Servers: n.servers, Members: &n.member, Record: n.record, Feeds: n.feeds, Outcomes: n.outcomes,
		MarkPool:       func(v *view.Pool) { n.lastRefused.Load().mark(v) },
		Retries:        n.retries.answer,
		SessionTimeout: n.cfg.SessionTimeout, ProbeTimeout: n.cfg.ProbeTimeout, BeatEvery: n.cfg.BeatEvery,
		Grades: operate.Grades{Thresholds: n.thresholds(), StalenessTimes: n.cfg.StalenessMultiplier},
	})
}

// self is this node, as operate asks for it.
type self struct{ n *Node }

// Row implements operate.Self.
func (s self) Row() store.Node {
	own := store.Node{
		Incarnation: s.n.incarnation, Name: s.n.cfg.Name, Version: s.n.cfg.Version, State: store.NodeActive,
		Address: s.n.Addr(),
	}
	own.PeerAddress, own.PeerScope = s.n.PeerAddress()
	own.PeerProof = s.n.network.proof()
	if s.n.phase.draining.Load() {
		own.State = store.NodeDraining
	}
	return own
}

// Label implements operate.Self.
func (s self) Label() string { return s.n.member.label }

// Open implements operate.Self.
func (s self) Open() bool { return s.n.phase.open.Load() }

// Gate implements operate.Self.
func (s self) Gate() *messages.Problem { return s.n.servers.gate() }

// Drain implements operate.Self: it asks whoever runs this node to stop it in order. One that is being stopped already goes on with that.
func (s self) Drain(by string) error {
	s.n.logger.Info("node is drained by an operator", "node", s.n.cfg.Name, "by", by)
	s.n.phase.drainedBy.CompareAndSwap(nil, &by) // the first counts
	switch {
	case s.n.phase.draining.Load():
		return nil
	case s.n.cfg.Drain != nil:
		s.n.cfg.Drain()
		return nil
	}
	return syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
}
