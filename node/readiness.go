package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/supervisor"
)

// askStore asks a store that is thought to be up whether it answers.
func (b backend) askStore(ctx context.Context) error {
	if !b.servers.store.read().up {
		return nil // it is known to be away
	}
	limited, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	_, err := b.store.Now(limited)
	if err != nil {
		b.servers.Suspect()
	}
	return err
}

// Ready implements api.Backend. It may be asked of a node that has just begun to start.
func (b backend) Ready(ctx context.Context) api.Readiness {
	if !b.phase.founded.Load() {
		return api.Readiness{WaitsFor: []string{"node"}}
	}
	r := api.Readiness{Draining: b.phase.draining.Load()}
	r.WaitsFor, r.Notes = b.membershipNotes()
	r.WaitsFor = append(r.WaitsFor, b.servers.Waits()...)
	r.Notes = append(r.Notes, b.servers.oddNotes()...)
	b.lateWrites(&r)
	r.Notes = append(r.Notes, b.servers.losses.notes(b.cfg.Broker.Shared().Exchanges)...)
	r.Notes = append(r.Notes, b.notices.notes()...)
	r.Notes = append(r.Notes, b.short.notes(time.Now())...)
	if !b.phase.started.Load() {
		if len(r.WaitsFor) == 0 {
			r.WaitsFor = append(r.WaitsFor, "node")
		}
		return r
	}
	if refused := b.lastRefused.Load(); refused != nil {
		r.Notes = append(r.Notes, refused.note())
	}
	if err := b.askStore(ctx); err != nil {
		r.WaitsFor = append(r.WaitsFor, "store: "+err.Error())
	}
	described := b.pools.DescribeAll(ctx)
	for name := range b.pools.all() {
		d, answered := described[name]
		switch {
		case !answered:
			r.WaitsFor = append(r.WaitsFor, "pool "+name+" does not answer")
		case !d.Started:
			r.WaitsFor = append(r.WaitsFor, "pool "+name+" is starting")
		case d.Broken != "":
			r.BrokenPools = append(r.BrokenPools, name)
			r.Notes = append(r.Notes, "pool "+name+" is broken: "+operate.Clip(d.Broken, operate.FailureMax))
		default:
			b.lateBeats(&r, &d)
		}
	}
	slices.Sort(r.WaitsFor)
	slices.Sort(r.BrokenPools)
	r.Ready = len(r.WaitsFor) == 0 && !r.Draining
	return r
}

// lateWrites says in /readyz what keeps the node from writing.
func (b backend) lateWrites(r *api.Readiness) {
	now := time.Now()
	if full := b.servers.full.waits(now); full != "" {
		r.WaitsFor = append(r.WaitsFor, full)
	}
	stuck, held := lateness(b.backlog.State(), now)
	switch {
	case stuck != "" && saysStoreAway(r):
		r.Notes = append(r.Notes, stuck)
	case stuck != "":
		r.WaitsFor = append(r.WaitsFor, stuck)
	}
	if held != "" {
		r.Notes = append(r.Notes, held)
	}
}

// lateBeats makes the node unready while no worker of a pool has a fresh heartbeat: whatever is submitted to it fails. Where
// some are fresh, it only says so.
func (b backend) lateBeats(r *api.Readiness, d *supervisor.Description) {
	stale, oldest := 0, time.Time{}
	for i := range d.Workers {
		w := &d.Workers[i]
		if w.Causes&health.HeartbeatStale == 0 {
			continue
		}
		if stale++; oldest.IsZero() || w.Beat.Before(oldest) {
			oldest = w.Beat
		}
	}
	if stale == 0 {
		return
	}
	text := fmt.Sprintf("pool %s: %d of %d workers have no fresh heartbeat, the last is %s old: the store does not take them",
		d.Name, stale, len(d.Workers), time.Since(oldest).Round(100*time.Millisecond))
	if why := b.beats.read(); why != "" {
		text += ": " + why
	}
	if stale == len(d.Workers) && !saysStoreAway(r) {
		r.WaitsFor = append(r.WaitsFor, text)
	} else {
		r.Notes = append(r.Notes, text)
	}
}

// saysStoreAway reports whether the node waits for the store already: what the store cannot take meanwhile is a note.
func saysStoreAway(r *api.Readiness) bool {
	return slices.ContainsFunc(r.WaitsFor, func(what string) bool { return strings.HasPrefix(what, "store: ") })
}
