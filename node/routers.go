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
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// routing is what the node knows of who routes for its pools.
type routing struct {
	*base
	operator *operate.Operator
	others   func() int // how many other nodes live

	asking sync.Mutex // held while the store is asked who leads
	mu     sync.Mutex
	routed map[string]routed // by pool
}

// routed is what the node is to one pool.
type routed struct {
	mode      lead.Mode
	followers int
}

// leads reports whether this node takes part in choosing one router for each pool: it must be reached by the others.
func (rt *routing) leads() bool { return rt.peers != nil && rt.cfg.full() }

// leadRound asks the store who leads the pools that this node serves, takes those that nobody does, and tells the pools.
// A node that drains takes none.
func (rt *routing) leadRound(ctx context.Context) error {
	rt.asking.Lock()
	defer rt.asking.Unlock()
	if !rt.phase.started.Load() {
		return nil
	}
	handles := rt.pools.all()
	var routers []store.Router
	var err error
	if rt.phase.draining.Load() {
		routers, err = rt.store.Routers(ctx)
	} else {
		routers, err = rt.store.Lead(ctx, rt.incarnation, slices.Sorted(maps.Keys(handles)))
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
			news.Router, news.Epoch, news.Name = r.Incarnation, r.Epoch, rt.operator.Directory.NameOf(r.Incarnation)
		}
		rt.system.Send(handle.pid, news)
	}
	return nil
}

// lookForRouters has the store asked at once.
func (rt *routing) lookForRouters() {
	if rt.leads() {
		rt.system.Send(rt.system.PID("troupe/monitors/routers"), &actors.RoundNow{})
	}
}

// forgetRouter gives up a pool that this node serves no more.
func (rt *routing) forgetRouter(ctx context.Context, pool string) {
	rt.mu.Lock()
	delete(rt.routed, pool)
	rt.mu.Unlock()
	if !rt.leads() {
		return
	}
	rt.asking.Lock() // a question under way may have taken the pool again
	defer rt.asking.Unlock()
	if err := rt.store.Resign(ctx, rt.incarnation, []string{pool}); err != nil {
		rt.logger.Warn("router of a removed pool not given up; it is with this node's lease", "pool", pool, "error", err)
	}
}

// mode is told by a pool at each change.
func (rt *routing) mode(pool string, mode lead.Mode, followers int) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.routed[pool] = routed{mode, followers}
}

// modes are what the node is to its pools.
func (rt *routing) modes() map[string]routed {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return maps.Clone(rt.routed)
}

// looksElsewhere reports whether any pool's router must learn from the store which other nodes have workers of it: they do
// not report to it.
func (rt *routing) looksElsewhere() bool {
	others := rt.others()
	for _, r := range rt.modes() {
		if r.mode == lead.Alone && others > 0 || r.mode == lead.Leading && r.followers < others {
			return true
		}
	}
	return false
}

// poolPeers is how a pool speaks to the other nodes; nil: it does not.
func (rt *routing) poolPeers() *supervisor.PoolPeers {
	if !rt.leads() {
		return nil
	}
	return &supervisor.PoolPeers{Report: rt.reportTo, EndSession: rt.endSessionAt, Look: rt.lookForRouters}
}

// reportTo sends a report to a router. A release that takes none refuses it.
func (rt *routing) reportTo(ctx context.Context, to messages.Incarnation, r wire.PoolReport) (result wire.PoolReportResult, err error) {
	body, err := rt.peers.Ask(ctx, to, messages.Placement{}, r)
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

func (rt *routing) endSessionAt(ctx context.Context, to messages.Incarnation, e wire.EndSession) error {
	_, err := rt.peers.Ask(ctx, to, messages.Placement{}, e)
	return err
}

// poolAnswers bounds what a pool may take for another node's question.
const poolAnswers = 2 * time.Second

// peerHandlers answer what other nodes' pools ask of this node's.
func (rt *routing) peerHandlers() []peers.Handler {
	return []peers.Handler{
		peers.HandleLong(poolAnswers, rt.reported), peers.Handle(rt.sessionEnded), peers.Handle(rt.deadLettered), peers.HandleLong(poolAnswers, rt.whyWaiting),
	}
}

// reported hands a report to the pool. One that does not answer has perhaps taken it.
func (rt *routing) reported(ctx context.Context, r peers.Request, report wire.PoolReport) (wire.Body, error) {
	pid := rt.pools.pid(report.Pool)
	if pid == nil {
		return wire.PoolReportResult{Refused: "the node has no such pool", Again: true}, nil
	}
	if rt.cfg.direct(report.Pool) && !rt.peers.Reaches(r.From) {
		return wire.PoolReportResult{Refused: "the router does not reach the node, and so could hand it no work", Again: true}, nil
	}
	result, err := actors.Ask[supervisor.PeerReport, wire.PoolReportResult](ctx, rt.system, pid,
		supervisor.PeerReport{From: r.From, Report: report})
	if err != nil {
		return wire.PoolReportResult{Refused: "the pool does not answer", Again: true}, nil
	}
	return result, nil
}

func (rt *routing) sessionEnded(_ context.Context, r peers.Request, e wire.EndSession) (wire.Body, error) {
	pid := rt.pools.pid(e.Pool)
	if pid == nil {
		return wire.Ack{Refused: "the node has no such pool"}, nil
	}
	rt.system.Send(pid, &supervisor.PeerEndSession{From: r.From, Tell: e})
	return wire.Ack{}, nil
}

// tellDeadLettered has another node count a dead letter against its worker. A node that is not reached does not count it.
func (rt *routing) tellDeadLettered(worker messages.WorkerKey, pl messages.Placement) {
	if rt.peers == nil {
		return
	}
	rt.operator.Calls.Beside(func(ctx context.Context) {
		body := wire.DeadLettered{Pool: worker.Pool, Slot: worker.Slot, Placement: pl}
		if _, err := rt.peers.Ask(ctx, worker.Incarnation, messages.Placement{}, body); err != nil {
			rt.logger.Debug("dead letter not counted against its worker", "worker", worker.Slot, "pool", worker.Pool, "error", err)
		}
	})
}

func (rt *routing) deadLettered(_ context.Context, _ peers.Request, d wire.DeadLettered) (wire.Body, error) {
	pid := rt.pools.pid(d.Pool)
	if pid == nil {
		return wire.Ack{Refused: "the node has no such pool"}, nil
	}
	rt.system.Send(pid, &supervisor.DeadLettered{Slot: d.Slot, Placement: d.Placement})
	return wire.Ack{}, nil
}

// whyWaiting answers for another node whose pool follows this one's.
func (rt *routing) whyWaiting(ctx context.Context, _ peers.Request, w wire.WhyWaiting) (wire.Body, error) {
	pid := rt.pools.pid(w.Pool)
	if pid == nil {
		return wire.WhyWaitingResult{Refused: "the node has no such pool"}, nil
	}
	answer, err := actors.Ask[supervisor.WhyWaiting, supervisor.WhyAnswer](ctx, rt.system, pid, supervisor.WhyWaiting{ID: w.Execution, Priority: messages.Priority(w.Priority), Seq: w.Seq})
	switch {
	case err != nil:
		return wire.WhyWaitingResult{Refused: "the pool does not answer"}, nil
	case !answer.Router.IsZero():
		return wire.WhyWaitingResult{Refused: "another node routes for the pool"}, nil
	}
	return wire.WhyWaitingResult{
		Reason: answer.Reason.String(), Message: answer.Reason.Sentence(), Ahead: int64(answer.Turn.Ahead), AtLeast: answer.Turn.AtLeast, Line: answer.Turn.Line,
	}, nil
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

// lookElsewhere tells the pools which other nodes have workers of theirs. It asks nothing while no other node lives, or all
// that live share their routers.
func (rt *routing) lookElsewhere(ctx context.Context) error {
	if !rt.looksElsewhere() {
		return nil
	}
	served, err := rt.operator.Remote.Served(ctx)
	if err != nil {
		return err
	}
	for name, handle := range rt.pools.all() {
		rt.system.Send(handle.pid, &supervisor.Elsewhere{Beats: served[name]})
	}
	return nil
}
