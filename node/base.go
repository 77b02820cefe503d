package node

import (
	"context"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/store/clock"
)

// base is what the parts of a node have in common: its settings, its identity, its store, its actors, and how far its life has got.
type base struct {
	cfg         Config
	incarnation messages.Incarnation
	logger      hclog.Logger
	store       *doubt         // opened while the node starts
	clock       clock.Clock    // the store's
	system      *actors.System // made while the node starts
	pools       *pools
	peers       *peers.Network // opened while the node starts; nil: the node has no end of the remoting
	phase       phase
}

func newBase(cfg Config) *base {
	b := &base{cfg: cfg, incarnation: messages.NewIncarnation(), logger: cfg.Logger, store: &doubt{}, pools: newPools(cfg.Logger)}
	b.phase.leaves, b.phase.leave = context.WithCancel(context.Background())
	return b
}

// phase is how far the life of a node has got.
type phase struct {
	founded   atomic.Bool // what all actors share is there
	open      atomic.Bool // the tree runs: the API's calls may come
	started   atomic.Bool
	draining  atomic.Bool
	drainedBy atomic.Pointer[string]  // who asked for that; nil: a signal
	leaves    context.Context         // ends once the node is told to stop
	leave     context.CancelFunc      // ends leaves
	abort     context.CancelCauseFunc // ends the start
}
