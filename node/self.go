package node

import (
	"syscall"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/peers/proof"
	"github.com/troupe-run/troupe/store"
)

// self is this node, as operate asks for it.
type self struct {
	*base
	member *member
	addr   func() string            // where the API listens
	gate   func() *messages.Problem // refuses what needs the store while it is away
}

// Row implements operate.Self.
func (s *self) Row() store.Node {
	own := store.Node{
		Incarnation: s.incarnation, Name: s.cfg.Name, Version: s.cfg.Version, State: store.NodeActive, Address: s.addr(),
	}
	own.PeerAddress, own.PeerScope = s.peerAddress()
	if s.peers != nil {
		own.PeerProof = proof.Version
	}
	if s.phase.draining.Load() {
		own.State = store.NodeDraining
	}
	return own
}

// Label implements operate.Self.
func (s *self) Label() string { return s.member.label }

// Open implements operate.Self.
func (s *self) Open() bool { return s.phase.open.Load() }

// Gate implements operate.Self.
func (s *self) Gate() *messages.Problem { return s.gate() }

// Drain implements operate.Self: it asks whoever runs this node to stop it in order. One that is being stopped already goes on with that.
func (s *self) Drain(by string) error {
	s.logger.Info("node is drained by an operator", "node", s.cfg.Name, "by", by)
	s.phase.drainedBy.CompareAndSwap(nil, &by) // the first counts
	switch {
	case s.phase.draining.Load():
		return nil
	case s.cfg.Drain != nil:
		s.cfg.Drain()
		return nil
	}
	return syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
}
