package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/rules/alerts"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor"
)

// readiness says whether the node may be sent work, and what it waits for or lacks.
type readiness struct {
	*base
	servers  *watcher
	backlog  *actors.Backlog
	beats    *beats
	notices  *notices
	short    *shortages
	member   *member
	network  *network
	reloader *reloader
}

// askStore asks a store that is thought to be up whether it answers.
func (s *readiness) askStore(ctx context.Context) error {
	if !s.servers.store.read().up {
		return nil // it is known to be away
	}
	limited, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	_, err := s.store.Now(limited)
	if err != nil {
		s.servers.Suspect()
	}
	return err
}

// read may be called of a node that has just begun to start.
func (s *readiness) read(ctx context.Context) api.Readiness {
	if !s.phase.founded.Load() {
		return api.Readiness{WaitsFor: []string{"node"}, Waits: []api.ReadinessWait{{For: "node"}}}
	}
	r := api.Readiness{Draining: s.phase.draining.Load()}
	r.WaitsFor, r.Notes = s.member.notes()
	r.Notes = append(r.Notes, s.lifeNotes()...)
	r.WaitsFor = append(r.WaitsFor, s.servers.Waits()...)
	r.Notes = append(r.Notes, s.servers.brokerNotes()...)
	r.Notes = append(r.Notes, s.servers.oddNotes()...)
	s.lateWrites(&r)
	r.Notes = append(r.Notes, s.servers.losses.notes(s.cfg.Broker.Shared().Exchanges)...)
	r.Notes = append(r.Notes, s.notices.notes()...)
	r.Notes = append(r.Notes, s.short.notes(time.Now())...)
	if !s.phase.started.Load() {
		if len(r.WaitsFor) == 0 {
			r.WaitsFor = append(r.WaitsFor, "node")
		}
		s.waits(&r)
		return r
	}
	if refused := s.reloader.refused.Load(); refused != nil {
		r.Notes = append(r.Notes, refused.note())
	}
	if err := s.askStore(ctx); err != nil {
		r.WaitsFor = append(r.WaitsFor, "store: "+err.Error())
	}
	s.staleLease(&r)
	described := s.pools.DescribeAll(ctx)
	for name := range s.pools.all() {
		d, answered := described[name]
		switch {
		case !answered:
			r.WaitsFor = append(r.WaitsFor, "pool "+name+" does not answer")
		case !d.Started:
			r.WaitsFor = append(r.WaitsFor, "pool "+name+" is starting")
		case d.Broken != "":
			r.BrokenPools = append(r.BrokenPools, name)
			r.Notes = append(r.Notes, "pool "+name+" is broken: "+messages.ClipText(d.Broken, operate.FailureMax))
		default:
			s.lateBeats(&r, &d)
			unattached(&r, &d)
		}
	}
	r.Notes = append(r.Notes, s.unknownPools()...)
	slices.Sort(r.WaitsFor)
	s.waits(&r)
	slices.Sort(r.BrokenPools)
	r.Ready = len(r.WaitsFor) == 0 && !r.Draining
	return r
}

// waits says since when the node waits for each thing, and what to do about it, as far as it knows.
func (s *readiness) waits(r *api.Readiness) {
	for _, what := range r.WaitsFor {
		w := api.ReadinessWait{For: what}
		for _, of := range []*server{&s.servers.store, &s.servers.broker} {
			if c := of.read(); strings.HasPrefix(what, of.name+": ") && (!c.up || c.blocked) && !c.since.IsZero() {
				w.Since, w.WhatToDo = s.clock.Stored(c.since), alerts.Remedy(of.name+"_"+word(c))
			}
		}
		if strings.Contains(what, unattachedMark) {
			w.WhatToDo = alerts.Remedy("workers_unattached")
		}
		if strings.HasSuffix(what, " is starting") {
			w.WhatToDo = roster.WorkersStarting.Advice()
		}
		r.Waits = append(r.Waits, w)
	}
}

// unknownPools say which settings are of pools that the node does not have.
func (s *readiness) unknownPools() (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Pools)) {
		if !s.pools.Has(name) {
			notes = append(notes, "pools: the node has no pool "+name+", and its settings have no effect")
		}
	}
	return notes
}

// lifeNotes are about the machine's clock, the other nodes and the actors.
func (s *readiness) lifeNotes() (notes []string) {
	if note := skewNote(s.clock.Skew(), s.cfg.full()); note != "" {
		notes = append(notes, note)
	}
	notes = append(notes, s.network.notes()...)
	for _, id := range s.system.Registry.Stuck() {
		notes = append(notes, "actor "+id+" is stuck: it handles one message while others wait")
	}
	return notes
}

// lateWrites says in /readyz what keeps the node from writing.
func (s *readiness) lateWrites(r *api.Readiness) {
	now := time.Now()
	if full := s.servers.full.waits(now); full != "" {
		r.WaitsFor = append(r.WaitsFor, full)
	}
	stuck, held := lateness(s.backlog.State(), now)
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

// staleLease makes the node unready while its lease is not renewed, whatever the cause: it claims nothing more soon.
func (s *readiness) staleLease(r *api.Readiness) {
	why := s.member.Unrenewed()
	if why == "" || saysStoreAway(r) {
		return
	}
	if err := s.servers.writes.refused(false); err != nil {
		why += ": " + err.Error()
	}
	r.WaitsFor = append(r.WaitsFor, "store: "+why)
}

// lateBeats makes the node unready while no worker of a pool has a fresh heartbeat: whatever is submitted to it fails. Where
// some are fresh, it only says so.
func (s *readiness) lateBeats(r *api.Readiness, d *supervisor.Description) {
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
	if why := s.beats.read(); why != "" {
		text += ": " + why
	}
	if stale == len(d.Workers) && !saysStoreAway(r) {
		r.WaitsFor = append(r.WaitsFor, text)
	} else {
		r.Notes = append(r.Notes, text)
	}
}

// unattachedMark is in every text of part.Description.Unattached.
const unattachedMark = "are ready and get no work"

// unattached makes the node unready while no ready worker of a pool has a queue that delivers. Where some have, it only says so.
func unattached(r *api.Readiness, d *supervisor.Description) {
	switch workers, all, text := d.Unattached(); {
	case workers == 0:
	case all:
		r.WaitsFor = append(r.WaitsFor, "pool "+d.Name+": "+text)
	default:
		r.Notes = append(r.Notes, "pool "+d.Name+": "+text)
	}
}

// saysStoreAway reports whether the node waits for the store already: what the store cannot take meanwhile is a note.
func saysStoreAway(r *api.Readiness) bool {
	return slices.ContainsFunc(r.WaitsFor, func(what string) bool { return strings.HasPrefix(what, "store: ") })
}
