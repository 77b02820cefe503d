package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// routing is what the node knows of who routes for its pools.
type routing struct {
	asking sync.Mutex // held while the store is asked who leads
	mu     sync.Mutex
	pools  map[string]routed
}

// routed is what the node is to one pool.
type routed struct {
	mode      lead.Mode
	followers int
}

// leads reports whether this node takes part in choosing one router for each pool: it must be reached by the others.
func (n *Node) leads() bool { return n.peers != nil && n.cfg.full() }

// leadRound asks the store who leads the pools that this node serves, takes those that nobody does, and tells the pools.
// A node that drains takes none.
func (n *Node) leadRound(ctx context.Context) error {
	n.routing.asking.Lock()
	defer n.routing.asking.Unlock()
	if !n.phase.started.Load() {
		return nil
	}
	handles := n.pools.all()
	var routers []store.Router
	var err error
	if n.phase.draining.Load() {
		routers, err = n.store.Routers(ctx)
	} else {
		routers, err = n.store.Lead(ctx, n.incarnation, slices.Sorted(maps.Keys(handles)))
	}
	if err != nil {
		return err
	}
	led := make(map[string]*store.Router, len(routers))
	for i := range routers {
		led[routers[i].Pool] = &routers[i]
	}
	for pool, handle := range handles {
		news := &supervisor.Led{}
		if r := led[pool]; r != nil && !r.Incarnation.IsZero() {
			news.Router, news.Epoch, news.Name = r.Incarnation, r.Epoch, n.operator.Directory.NameOf(r.Incarnation)
		}
		n.system.Send(handle.pid, news)
	}
	return nil
}

// lookForRouters has the store asked at once.
func (n *Node) lookForRouters() {
	if n.leads() {
		n.system.Send(n.system.PID("troupe/monitors/routers"), &actors.RoundNow{})
	}
}

// forgetRouter gives up a pool that this node serves no more.
func (n *Node) forgetRouter(ctx context.Context, pool string) {
	n.routing.mu.Lock()
	delete(n.routing.pools, pool)
	n.routing.mu.Unlock()
	if !n.leads() {
		return
	}
	n.routing.asking.Lock() // a question under way may have taken the pool again
	defer n.routing.asking.Unlock()
	if err := n.store.Resign(ctx, n.incarnation, []string{pool}); err != nil {
		n.logger.Warn("router of a removed pool not given up; it is with this node's lease", "pool", pool, "error", err)
	}
}

// mode is told by a pool at each change.
func (n *Node) mode(pool string, mode lead.Mode, followers int) {
	n.routing.mu.Lock()
	defer n.routing.mu.Unlock()
	if n.routing.pools == nil {
		n.routing.pools = map[string]routed{}
	}
	n.routing.pools[pool] = routed{mode, followers}
}

// modes are what the node is to its pools.
func (n *Node) modes() map[string]routed {
	n.routing.mu.Lock()
	defer n.routing.mu.Unlock()
	return maps.Clone(n.routing.pools)
}

// looksElsewhere reports whether any pool's router must learn from the store which other nodes have workers of it: they do
// not report to it.
func (n *Node) looksElsewhere() bool {
	others := n.member.Others()
	for _, r := range n.modes() {
		if r.mode == lead.Alone && others > 0 || r.mode == lead.Leading && r.followers < others {
			return true
		}
	}
	return false
}

// poolPeers is how a pool speaks to the other nodes; nil: it does not.
func (n *Node) poolPeers() *supervisor.PoolPeers {
	if !n.leads() {
		return nil
	}
	return &supervisor.PoolPeers{Report: n.reportTo, EndSession: n.endSessionAt, Look: n.lookForRouters}
}

// reportTo sends a report to a router. A release that takes none refuses it.
func (n *Node) reportTo(ctx context.Context, to messages.Incarnation, r wire.PoolReport) (result wire.PoolReportResult, err error) {
	body, err := n.peers.Ask(ctx, to, messages.Placement{}, r)
	if errors.Is(err, peers.ErrUnsupported) {
		return wire.PoolReportResult{Refused: "the router's release takes no reports"}, nil
	}
	if err != nil {
		return result, err
	}
	if refusal, ok := body.(wire.Ack); ok && refusal.Code == peers.Crowded {
		return wire.PoolReportResult{Refused: refusal.Refused, Again: true}, nil
	}
	result, ok := body.(wire.PoolReportResult)
	if !ok {
		return result, fmt.Errorf("report pool %s to %s: answered with %T", r.Pool, to, body)
	}
	return result, nil
}

func (n *Node) endSessionAt(ctx context.Context, to messages.Incarnation, e wire.EndSession) error {
	_, err := n.peers.Ask(ctx, to, messages.Placement{}, e)
	return err
}

// poolAnswers bounds what a pool may take for another node's question.
const poolAnswers = 2 * time.Second

// peerHandlers answer what other nodes' pools ask of this node's.
func (n *Node) peerHandlers() []peers.Handler {
	return []peers.Handler{
		peers.HandleLong(poolAnswers, n.reported), peers.Handle(n.sessionEnded), peers.Handle(n.deadLettered), peers.HandleLong(poolAnswers, n.whyWaiting),
	}
}

// reported hands a report to the pool. One that does not answer has perhaps taken it.
func (n *Node) reported(ctx context.Context, r peers.Request, report wire.PoolReport) (wire.Body, error) {
	pid := n.pools.pid(report.Pool)
	if pid == nil {
		return wire.PoolReportResult{Refused: "the node has no such pool", Again: true}, nil
	}
	result, err := actors.Ask[supervisor.PeerReport, wire.PoolReportResult](ctx, n.system, pid,
		supervisor.PeerReport{From: r.From, Report: report})
	if err != nil {
		return wire.PoolReportResult{Refused: "the pool does not answer", Again: true}, nil
	}
	return result, nil
}

func (n *Node) sessionEnded(_ context.Context, r peers.Request, e wire.EndSession) (wire.Body, error) {
	pid := n.pools.pid(e.Pool)
	if pid == nil {
		return wire.Ack{Refused: "the node has no such pool"}, nil
	}
	n.system.Send(pid, &supervisor.PeerEndSession{From: r.From, Tell: e})
	return wire.Ack{}, nil
}

// tellDeadLettered has another node count a dead letter against its worker. A node that is not reached does not count it.
func (n *Node) tellDeadLettered(worker messages.WorkerKey, pl messages.Placement) {
	if n.peers == nil {
		return
	}
	n.operator.Calls.Beside(func(ctx context.Context) {
		body := wire.DeadLettered{Pool: worker.Pool, Slot: worker.Slot, Placement: pl}
		if _, err := n.peers.Ask(ctx, worker.Incarnation, messages.Placement{}, body); err != nil {
			n.logger.Debug("dead letter not counted against its worker", "worker", worker.Slot, "pool", worker.Pool, "error", err)
		}
	})
}

func (n *Node) deadLettered(_ context.Context, _ peers.Request, d wire.DeadLettered) (wire.Body, error) {
	pid := n.pools.pid(d.Pool)
	if pid == nil {
		return wire.Ack{Refused: "the node has no such pool"}, nil
	}
	n.system.Send(pid, &supervisor.DeadLettered{Slot: d.Slot, Placement: d.Placement})
	return wire.Ack{}, nil
}

// whyWaiting answers for another node whose pool follows this one's.
func (n *Node) whyWaiting(ctx context.Context, _ peers.Request, w wire.WhyWaiting) (wire.Body, error) {
	pid := n.pools.pid(w.Pool)
	if pid == nil {
		return wire.WhyWaitingResult{Refused: "the node has no such pool"}, nil
	}
	answer, err := actors.Ask[supervisor.WhyWaiting, supervisor.WhyAnswer](ctx, n.system, pid, supervisor.WhyWaiting{ID: w.Execution})
	switch {
	case err != nil:
		return wire.WhyWaitingResult{Refused: "the pool does not answer"}, nil
	case !answer.Router.IsZero():
		return wire.WhyWaitingResult{Refused: "another node routes for the pool"}, nil
	}
	return wire.WhyWaitingResult{Reason: answer.Reason.String(), Message: answer.Reason.Sentence()}, nil
}

// serves names what a pool of the catalog serves: nodes share a router where it is the same.
func serves(set *pack.Set, p *pack.Pool) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q\n", p.Name, p.Runtime)
	for _, ref := range slices.Sorted(slices.Values(p.Actions)) {
		if a, ok := set.Action(ref); ok {
			fmt.Fprintf(sum, "%q %q\n", a.Ref, a.Version)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}
