package operate

import (
	"context"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

// Operator answers questions about every node and carries out commands on every node. With what checks and stores submissions it
// is all that the HTTP API asks of a node.
type Operator struct {
	*executions
	*fleet
	*steering
	*sessions
	*Cordons

	Directory *Directory
	Calls     *Calls
	Remote    *RemoteWorkers
	own       *local
	cfg       *Config
}

// New makes an Operator that reaches no other node before Connect.
func New(cfg Config) *Operator {
	own, nodes, rows := &local{&cfg}, &Directory{cfg: &cfg}, &RemoteWorkers{cfg: &cfg}
	calls := &Calls{cfg: &cfg, nodes: nodes, hinting: make(chan struct{}, hintsMax)}
	nodes.lost = calls.asking.keep
	cordons := &Cordons{cfg: &cfg, calls: calls}
	return &Operator{
		executions: &executions{&cfg, nodes, calls}, fleet: &fleet{&cfg, own, nodes, calls, rows},
		steering: &steering{&cfg, own, nodes, calls, cordons}, sessions: &sessions{&cfg, calls}, Cordons: cordons,
		Directory: nodes, Calls: calls, Remote: rows, own: own, cfg: &cfg,
	}
}

// Connect gives the Operator the way to the other nodes. It is called once, before anything is asked; a node without one asks
// itself alone.
func (o *Operator) Connect(network Network) { o.Directory.network = network }

// ActorHistory is the lifecycle of a worker actor of this node, for the debug endpoint; other actors have none.
func (o *Operator) ActorHistory(ctx context.Context, info actors.Info) (any, error) {
	if info.Kind != "worker" {
		return nil, nil
	}
	seen, err := o.cfg.Pools.Inspect(ctx, info.ID)
	if err != nil {
		return nil, err
	}
	return view.Transitions(events(messages.WorkerKey{}, &seen)), nil
}
