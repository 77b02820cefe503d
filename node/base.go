package node

import (
	"context"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/store/clock"
	"github.com/troupe-run/troupe/tracing"
)

// base is what the parts of a node have in common: its settings, its identity, its servers, its actors, and how far its life has got.
type base struct {
	cfg         Config
	incarnation messages.Incarnation
	logger      hclog.Logger
	store       *doubt         // opened while the node starts
	broker      *shared        // opened while the node starts
	clock       clock.Clock    // the store's
	awake       actors.Awake   // of this process
	system      *actors.System // made while the node starts, and with it the next two
	recorder    *actor.PID
	delivery    *actor.PID
	pools       *pools
	peers       *peers.Network // opened while the node starts; nil: the node has no end of the remoting
	phase       phase
	journal     *recording
	rollups     *rollups
	runs        *operate.Runs
	hub         *hub.Hub
	tracer      *tracing.Tracer // nil: the node makes no spans
}

func newBase(cfg Config) *base {
	b := &base{
		cfg: cfg, incarnation: messages.NewIncarnation(), logger: cfg.Logger, store: &doubt{}, broker: &shared{}, pools: newPools(cfg.Logger),
	}
	b.journal, b.rollups, b.runs = &recording{base: b}, &rollups{base: b}, &operate.Runs{}
	b.hub = hub.New(hub.Config{ID: b.incarnation.String(), Whole: !cfg.full(), Now: b.clock.Now})
	b.phase.leaves, b.phase.leave = context.WithCancel(context.Background())
	return b
}

// fatal tells whoever runs the node that it cannot go on.
func (b *base) fatal(err error) {
	b.logger.Error("the tree cannot go on", "error", err)
	if b.cfg.Fatal != nil {
		go b.cfg.Fatal(err)
	}
}

// refuse ends a node that no waiting for its servers helps.
func (b *base) refuse(err error) {
	b.phase.abort(err)
	if b.phase.started.Load() {
		b.fatal(err)
	}
}

// peerAddress is where the others reach this node, as host:port, and for which of them the address means this node; empty:
// nowhere.
func (b *base) peerAddress() (address, scope string) {
	if b.peers == nil {
		return "", ""
	}
	return b.peers.Advertised()
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
