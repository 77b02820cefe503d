package node

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/supervisor"
)

// steering answers what other nodes ask of this one on behalf of their callers, whom they have let in. It acts on this
// node's own workers alone, and every request may come twice.
func (n *Node) steering() []peers.Handler {
	s := steered{backend{n}}
	return []peers.Handler{
		peers.Handle(s.cancel), peers.Handle(s.drain), peers.Handle(s.output),
		peers.HandleLong(steerTime, s.kill), peers.HandleLong(steerTime, s.cordon),
		peers.HandleLong(steerTime, s.workers), peers.HandleLong(steerTime, s.pools),
		peers.HandleLong(n.probeTime(), s.probe),
	}
}

type steered struct{ backend }

// done is the answer to an order.
func done(err error) (wire.Body, error) {
	if err != nil {
		return refuse(err), nil
	}
	return wire.Ack{}, nil
}

// shut refuses while the node has no tree that could be asked.
func (s steered) shut() error {
	if s.open.Load() {
		return nil
	}
	return messages.Problemf(messages.CodeUnavailable, "the node is starting or has ended; try again")
}

func (s steered) cancel(_ context.Context, r peers.Request, m wire.Cancel) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	pid := s.Node.pools.pid(m.Pool)
	if pid == nil {
		return done(messages.Problemf(messages.CodeNotFound, "there is no pool %q", m.Pool))
	}
	s.logger.Info("run is to be cancelled, says a peer", "execution", r.About.Execution, "attempt", r.About.Attempt, "by", m.By, "peer", r.From)
	s.system.Send(pid, &supervisor.CancelAgain{Placement: r.About, Slot: m.Slot, By: m.By})
	return done(nil)
}

func (s steered) drain(_ context.Context, r peers.Request, m wire.Drain) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	s.logger.Info("a peer passes on a drain", "by", m.By, "peer", r.From)
	return done(s.drainSelf(m.By))
}

func (s steered) kill(ctx context.Context, r peers.Request, m wire.Kill) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	s.logger.Info("a peer passes on a kill", "pool", m.Pool, "slot", m.Slot, "generation", m.Generation, "by", m.By, "peer", r.From)
	return done(s.killWorker(ctx, m.Pool, m.Slot, m.Generation, m.By))
}

func (s steered) cordon(ctx context.Context, r peers.Request, m wire.Cordon) (wire.Body, error) {
	if shut := s.gate(); shut != nil {
		return done(shut)
	}
	switch {
	case m.Slot != nil:
		return done(s.cordonWorker(ctx, m.Pool, *m.Slot, m.Cordoned, m.By))
	case m.Pool != "": // the peer has written it
		s.logger.Debug("a pool's cordon has changed, says a peer", "pool", m.Pool, "by", m.By, "peer", r.From)
		return done(s.readCordons(ctx))
	}
	return done(s.cordonNode(ctx, m.Cordoned, m.By))
}

func (s steered) probe(ctx context.Context, _ peers.Request, m wire.ProbeWorker) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	t := target{own: true, pool: m.Pool, slot: m.Slot}
	d, err := s.look(ctx, &t, m.Probe, m.By)
	if err != nil {
		return done(err)
	}
	view, err := fitWorker(d)
	if err != nil {
		return done(err)
	}
	return wire.Views{View: view}, nil
}

// fitWorker writes a worker as JSON, with as much of its history as fits.
func fitWorker(d api.WorkerDetail) ([]byte, error) {
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
	return pageOf(s.ownWorkers(ctx, m.Pool), m.After, placeOf, behindPlace)
}

func (s steered) pools(ctx context.Context, _ peers.Request, m wire.Pools) (wire.Body, error) {
	if err := s.shut(); err != nil {
		return done(err)
	}
	return pageOf(s.ownPools(ctx), m.After, func(p api.PoolView) string { return p.Name },
		func(p api.PoolView, after string) bool { return p.Name > after })
}

// placeOf is where a worker stands in its node's listing: pool/slot.
func placeOf(w api.WorkerView) string {
	_, pool, slot, _ := w.ID.Split()
	return pool + "/" + strconv.Itoa(int(slot))
}

// behindPlace reports whether a worker comes behind a place in its node's listing. A place that is none comes first.
func behindPlace(w api.WorkerView, after string) bool {
	i := strings.LastIndexByte(after, '/')
	last, err := strconv.Atoi(after[i+1:])
	if i < 0 || err != nil {
		return true
	}
	_, pool, slot, _ := w.ID.Split()
	return pool > after[:i] || pool == after[:i] && slot > messages.Slot(last)
}

// pageOf is the page behind a place of a listing, as much as fits.
func pageOf[T any](all []T, after string, place func(T) string, behind func(T, string) bool) (wire.Body, error) {
	view, last := []byte{'['}, ""
	for _, item := range all {
		if after != "" && !behind(item, after) {
			continue
		}
		raw, err := json.Marshal(item)
		if err != nil {
			return nil, err
		}
		if len(view)+len(raw)+2 > wire.ViewsMax {
			return wire.Views{View: append(view, ']'), Next: last}, nil
		}
		if last != "" {
			view = append(view, ',')
		}
		view, last = append(view, raw...), place(item)
	}
	return wire.Views{View: append(view, ']')}, nil
}
