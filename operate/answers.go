package operate

import (
	"context"
	"encoding/json"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/alerts"
	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/supervisor"
)

// Handlers answer what other nodes ask of this one on behalf of their callers, whom they have let in. It acts on this
// node's own workers alone, and every request may come twice.
func (o *Operator) Handlers() []peers.Handler {
	s := steered{o.cfg, o.steering, o.own, o.Cordons}
	return []peers.Handler{
		peers.Handle(s.cancel), peers.Handle(s.drain), peers.Handle(s.output),
		peers.HandleLong(steerTime, s.kill), peers.HandleLong(steerTime, s.cordon),
		peers.HandleLong(steerTime, s.workers), peers.HandleLong(steerTime, s.pools), peers.HandleLong(steerTime, s.readings), peers.HandleLong(steerTime, s.cells), peers.HandleLong(steerTime, s.sights),
		peers.HandleLong(o.own.probeTime(), s.probe),
	}
}

// steered carries out for other nodes' callers what this node would for its own.
type steered struct {
	cfg      *Config
	steering *steering
	own      *local
	cordons  *Cordons
}

// done is the answer to an order.
func done(err error) (wire.Body, error) {
	if err != nil {
		return refuse(err), nil
	}
	return wire.Ack{}, nil
}

// shut refuses while the node has no tree that could be asked.
func (s steered) shut() error {
	if s.cfg.Self.Open() {
		return nil
	}
	return messages.Problemf(messages.CodeUnavailable, "the node is starting or has ended; try again")
}

func (s steered) cancel(_ context.Context, r peers.Request, m wire.Cancel) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	if !s.cfg.Pools.Has(m.Pool) {
		return done(messages.Problemf(messages.CodeNotFound, "there is no pool %q", m.Pool))
	}
	s.cfg.Pools.Tell(m.Pool, &supervisor.CancelAgain{Placement: r.About, Slot: m.Slot, By: m.By, Peer: r.From})
	return done(nil)
}

func (s steered) drain(_ context.Context, r peers.Request, m wire.Drain) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	s.cfg.Logger.Info("a peer passes on a drain", "by", m.By, "peer", r.From)
	return done(s.cfg.Self.Drain(m.By))
}

func (s steered) kill(ctx context.Context, r peers.Request, m wire.Kill) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	s.cfg.Logger.Info("a peer passes on a kill", "pool", m.Pool, "slot", m.Slot, "generation", m.Generation, "by", m.By, "peer", r.From)
	return done(s.own.killWorker(ctx, m.Pool, m.Slot, m.Generation, m.By))
}

func (s steered) cordon(ctx context.Context, r peers.Request, m wire.Cordon) (wire.Body, error) {
	if shut := s.cfg.Self.Gate(); shut != nil {
		return done(shut)
	}
	switch {
	case m.Slot != nil:
		return done(s.own.cordonWorker(ctx, m.Pool, *m.Slot, m.Cordoned, m.By))
	case m.Pool != "": // the peer has written it
		s.cfg.Logger.Debug("a pool's cordon has changed, says a peer", "pool", m.Pool, "by", m.By, "peer", r.From)
		return done(s.cordons.Read(ctx))
	}
	return done(s.cordons.cordonNode(ctx, m.Cordoned, m.By))
}

func (s steered) probe(ctx context.Context, _ peers.Request, m wire.ProbeWorker) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	if m.Runs {
		return s.runs(m)
	}
	t := target{own: true, pool: m.Pool, slot: m.Slot}
	d, err := s.steering.look(ctx, &t, m.Probe, m.By)
	if err != nil {
		return done(err)
	}
	view, err := fitWorker(d)
	if err != nil {
		return done(err)
	}
	return wire.Views{View: view}, nil
}

// runs are those that this node remembers of a worker. They fit: the texts of each are bounded.
func (s steered) runs(m wire.ProbeWorker) (wire.Body, error) {
	id := messages.NewWorkerID(s.cfg.Self.Label(), m.Pool, m.Slot)
	raw, err := json.Marshal(view.WorkerRuns{Worker: id, Source: view.RunsMemory, Runs: s.cfg.Runs.Of(id)})
	if err != nil {
		return nil, err
	}
	return wire.Views{View: raw}, nil
}

// fitWorker writes a worker as JSON, with as much of its history as fits.
func fitWorker(d view.WorkerDetail) ([]byte, error) {
	for {
		view, err := json.Marshal(d)
		if err != nil || len(view) <= wire.ViewsMax {
			return view, err
		}
		if len(d.History) == 0 {
			return nil, messages.Problemf(messages.CodeInternal, "worker %s does not fit into %d bytes", d.ID, wire.ViewsMax)
		}
		d.History = d.History[:len(d.History)/2]
	}
}

func (s steered) workers(ctx context.Context, _ peers.Request, m wire.Workers) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	return pageOf(s.own.ownWorkers(ctx, m.Pool), m.After, placeOf, behindPlace)
}

func (s steered) pools(ctx context.Context, _ peers.Request, m wire.Pools) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	if m.Pool != "" {
		return pageOf(s.own.ownPool(ctx, m.Pool), m.After, func(p view.PoolShare) string { return p.Name },
			func(p view.PoolShare, after string) bool { return p.Name > after })
	}
	return pageOf(s.own.ownPools(ctx), m.After, func(p view.Pool) string { return p.Name },
		func(p view.Pool, after string) bool { return p.Name > after })
}

func (s steered) cells(ctx context.Context, _ peers.Request, m wire.Cells) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	return pageOf(s.own.ownCells(ctx), m.After, func(c keyframe.Cells) string { return c.Name },
		func(c keyframe.Cells, after string) bool { return c.Name > after })
}

func (s steered) readings(ctx context.Context, _ peers.Request, m wire.Readings) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	return pageOf(s.cfg.Readings(ctx), m.After, func(r alerts.Reading) string { return r.Series },
		func(r alerts.Reading, after string) bool { return r.Series > after })
}
