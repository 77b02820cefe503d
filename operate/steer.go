package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

// target is a thing that can be steered and the incarnation that has it.
type target struct {
	node store.Node
	own  bool // it is this node's
	pool string
	slot messages.Slot
}

func noWorker(id messages.WorkerID) error {
	return messages.Problemf(messages.CodeNotFound, "there is no worker %q; `troupe workers` lists them", id)
}

// steering finds the node of a worker, and has commands carried out there.
type steering struct {
	cfg     *Config
	own     *local
	nodes   *Directory
	calls   *Calls
	cordons *Cordons
}

// worker finds the incarnation that has a worker. Of two that share a name the store says whose worker has the id.
func (s *steering) worker(ctx context.Context, id messages.WorkerID) (target, error) {
	label, pool, slot, ok := id.Split()
	if !ok {
		return target{}, noWorker(id)
	}
	t := target{own: true, pool: pool, slot: slot}
	if label == s.cfg.Self.Label() {
		return t, nil
	}
	known := s.nodes.rows(ctx)
	n, err := locate(label, known, s.nodes.sights.lapsed)
	if n.Incarnation.IsZero() {
		if n = s.byRow(ctx, id, pool, known); n.Incarnation.IsZero() {
			return t, ofWorker(id, err)
		}
	}
	t.node, t.own = n, n.Incarnation == s.cfg.Incarnation
	return t, nil
}

// ofWorker says which worker was asked for, of a node that was not found.
func ofWorker(id messages.WorkerID, err error) error {
	var p *messages.Problem
	if !errors.As(err, &p) {
		return err
	}
	named := *p
	named.Message = fmt.Sprintf("worker %s: %s", id, p.Message)
	return &named
}

// byRow is the live incarnation whose worker alone has the id, as the store knows them; zero: none, or more than one.
func (s *steering) byRow(ctx context.Context, id messages.WorkerID, pool string, known []store.Node) (found store.Node) {
	if s.cfg.Self.Gate() != nil {
		return found
	}
	rows, err := s.cfg.Store.ListWorkers(ctx, pool)
	if err != nil {
		return found
	}
	holders := map[messages.Incarnation]bool{}
	for i := range rows {
		if inc := rows[i].Key.Incarnation; rows[i].ID == id && !s.nodes.sights.lapsed(inc) {
			holders[inc] = true
		}
	}
	for i := range known {
		if len(holders) == 1 && holders[known[i].Incarnation] && known[i].State != store.NodeDead {
			return known[i]
		}
	}
	return found
}

// Worker returns a worker of any node with its history.
func (s *steering) Worker(ctx context.Context, id messages.WorkerID) (view.WorkerDetail, error) {
	t, err := s.worker(ctx, id)
	if err != nil {
		return view.WorkerDetail{}, err
	}
	return s.look(ctx, &t, false, "")
}

// look shows a worker, probed before where that is wanted.
func (s *steering) look(ctx context.Context, t *target, probe bool, by string) (view.WorkerDetail, error) {
	switch {
	case !t.own:
		limit := steerTime
		if probe {
			limit = s.own.probeTime()
		}
		reply, err := s.calls.ask(ctx, &t.node, limit, messages.Placement{}, wire.ProbeWorker{Pool: t.pool, Slot: t.slot, Probe: probe, By: by})
		if err != nil {
			return view.WorkerDetail{}, err
		}
		d, _, err := views[view.WorkerDetail](&t.node, reply)
		d.SeenAt = time.Now()
		return d, err
	case probe:
		return s.own.probeWorker(ctx, t.pool, t.slot, by)
	}
	return s.own.ownWorker(ctx, t.pool, t.slot)
}

// ProbeWorker probes a worker of any node now and returns it with the result.
func (s *steering) ProbeWorker(ctx context.Context, id messages.WorkerID, by string) (view.WorkerDetail, error) {
	t, err := s.worker(ctx, id)
	if err != nil {
		return view.WorkerDetail{}, err
	}
	d, err := s.look(ctx, &t, true, by)
	return d, s.done(ctx, err, "probe", string(id), by)
}

// CordonWorker gives a worker of any node no more work, or gives it work again.
func (s *steering) CordonWorker(ctx context.Context, id messages.WorkerID, cordoned bool, by string) error {
	t, err := s.worker(ctx, id)
	if err != nil {
		return err
	}
	if t.own {
		err = s.own.cordonWorker(ctx, t.pool, t.slot, cordoned, by)
	} else {
		_, err = s.calls.ask(ctx, &t.node, steerTime, messages.Placement{}, wire.Cordon{Pool: t.pool, Slot: &t.slot, Cordoned: cordoned, By: by})
	}
	return s.done(ctx, err, cordonWords[cordoned], string(id), by)
}

// done records a command that was carried out.
func (s *steering) done(ctx context.Context, err error, what, subject, by string) error {
	if err == nil {
		s.cfg.did(ctx, what, subject, by)
	}
	return err
}

// KillWorker ends a worker of any node at once. The generation that it saw is the one that ends, however often it is asked for.
func (s *steering) KillWorker(ctx context.Context, id messages.WorkerID, by string) error {
	t, err := s.worker(ctx, id)
	if err != nil {
		return err
	}
	d, err := s.look(ctx, &t, false, "")
	switch {
	case err != nil:
		return err
	case d.Generation < 1: // nobody is in the slot: it is being replaced
		return nil
	case t.own:
		err = s.own.killWorker(ctx, t.pool, t.slot, d.Generation, by)
	default:
		kill := wire.Kill{Pool: t.pool, Slot: t.slot, Generation: d.Generation, By: by}
		_, err = s.calls.ask(ctx, &t.node, steerTime, messages.Placement{}, kill)
	}
	return s.done(ctx, err, "kill", string(id), by)
}

// CordonNode gives a node no more work, or gives it work again. The cordon ends with this boot of the node.
func (s *steering) CordonNode(ctx context.Context, id string, cordoned bool, by string) error {
	t, err := s.nodes.find(ctx, id)
	if err != nil {
		return err
	}
	if t.own {
		err = s.cordons.cordonNode(ctx, cordoned, by)
	} else {
		_, err = s.calls.ask(ctx, &t.node, steerTime, messages.Placement{}, wire.Cordon{Cordoned: cordoned, By: by})
	}
	return s.done(ctx, err, cordonWords[cordoned], t.node.Name, by)
}

// DrainNode has a node finish what runs and stop.
func (s *steering) DrainNode(ctx context.Context, id, by string) error {
	t, err := s.nodes.find(ctx, id)
	if err != nil {
		return err
	}
	if t.own {
		err = s.cfg.Self.Drain(by)
	} else {
		_, err = s.calls.ask(ctx, &t.node, steerTime, messages.Placement{}, wire.Drain{By: by})
	}
	return s.done(ctx, err, "drain", t.node.Name, by)
}
