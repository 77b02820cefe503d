package keyframe

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/roster"
)

// How far from a time its records are read.
const (
	Back  = time.Hour       // keyframes before it
	Ahead = 6 * time.Minute // keyframes and changes after it: they say since when a state had lasted
	// silentMax is how long a node whose death nobody recorded may have been alive after it renewed its lease for the last time.
	silentMax = time.Minute
)

// Node is what the store has of an incarnation.
type Node struct {
	Incarnation       messages.Incarnation
	Name, Version     string
	StartedAt, BeatAt time.Time
	Dead              bool
}

// Stored is a keyframe with its name.
type Stored struct {
	Incarnation messages.Incarnation
	At          time.Time
	*Frame
}

// Transition is a recorded change of a worker.
type Transition struct {
	Incarnation messages.Incarnation
	Pool        string
	Slot        messages.Slot
	Generation  messages.Generation
	At          time.Time
	From, To    lifecycle.State
	Lasted      time.Duration // in From
}

// Records are what is stored of the time around a moment.
type Records struct {
	Nodes         []Node
	Before, After []Stored     // of each incarnation the newest keyframe up to the moment, and the oldest behind it
	Events        []Transition // by time, those of a worker in their order; up to Ahead behind the moment
	// EventsFrom is from when on the events up to the moment are complete; zero: all since the keyframes are there.
	EventsFrom time.Time
	// Entries are those of nodes, pools, routers, operators and gaps since the earliest of Before, up to the moment, by time.
	Entries []messages.JournalEntry
	Notes   []string // what could not be read
}

// At says what there was at a time.
func At(at time.Time, r *Records) *Fleet {
	f := &Fleet{At: at, Nodes: []FleetNode{}, Pools: []Cells{}, Notes: slices.Clone(r.Notes)}
	p := past{at: at, Records: r, before: index(r.Before), after: index(r.After), events: map[messages.Incarnation][]*Transition{}, parts: map[string]int{}}
	for i := range r.Before {
		for j := range r.Before[i].Pools {
			p.parts[r.Before[i].Pools[j].Name]++
		}
	}
	for i := range r.Events {
		e := &r.Events[i]
		p.events[e.Incarnation] = append(p.events[e.Incarnation], e)
	}
	for _, n := range p.nodes() {
		state, lived := p.state(&n)
		if !lived {
			continue
		}
		shown, pools := p.node(&n, state)
		f.Nodes, f.Pools = append(f.Nodes, shown), append(f.Pools, pools...)
		if shown.KeyframeAt.IsZero() {
			f.Notes = append(f.Notes, fmt.Sprintf("node %s stored no keyframe in the hour before, so most of it is not known", n.Name))
		}
	}
	if len(f.Nodes) == 0 {
		f.Notes = append(f.Notes, "no node is recorded that lived then")
	}
	if !r.EventsFrom.IsZero() {
		f.Notes = append(f.Notes, "there are more changes of workers than are read for one answer: those before "+r.EventsFrom.UTC().Format(time.RFC3339Nano)+" are left out")
	}
	f.Notes = append(f.Notes, p.gaps()...)
	f.Partial = len(f.Notes) > 0
	f.Sort()
	return f
}

type past struct {
	*Records
	at            time.Time
	before, after map[messages.Incarnation]*Stored
	events        map[messages.Incarnation][]*Transition
	parts         map[string]int // how many keyframes before the moment have a pool
}

func index(frames []Stored) map[messages.Incarnation]*Stored {
	by := map[messages.Incarnation]*Stored{}
	for i := range frames {
		by[frames[i].Incarnation] = &frames[i]
	}
	return by
}

// nodes are the rows, and what keyframes say of incarnations whose rows are deleted.
func (p *past) nodes() []Node {
	list := slices.Clone(p.Nodes)
	for i := range p.Before {
		s := &p.Before[i]
		if !slices.ContainsFunc(list, func(n Node) bool { return n.Incarnation == s.Incarnation }) {
			list = append(list, Node{Incarnation: s.Incarnation, Name: s.Node, Version: s.Version, BeatAt: s.At, Dead: true})
		}
	}
	return list
}

// state is what a node was; lived is false where it had ended, or not begun.
func (p *past) state(n *Node) (state string, lived bool) {
	if n.StartedAt.After(p.at) {
		return "", false
	}
	state = "active"
	frame := p.before[n.Incarnation]
	if frame != nil && frame.Draining {
		state = "draining"
	}
	late := false
	for i := range p.Entries {
		e := &p.Entries[i]
		if e.Kind != messages.JournalNode || e.Subject != n.Incarnation.String() || e.At.After(p.at) {
			continue
		}
		switch e.What {
		case "stopped", "fenced", "dead":
			return "", false
		case "draining":
			state = "draining"
		case "late", "on_time":
			late = e.What == "late"
		}
	}
	switch {
	case n.Dead && p.at.After(n.BeatAt.Add(silentMax)):
		return "", false
	case n.Dead && p.at.After(n.BeatAt) && !n.StartedAt.IsZero():
		return "silent", true
	case late && state == "active":
		return "late", true
	}
	return state, true
}

// node is a node with its pools.
func (p *past) node(n *Node, state string) (FleetNode, []Cells) {
	shown := FleetNode{Incarnation: n.Incarnation, Name: n.Name, Version: n.Version, State: state, StartedAt: n.StartedAt}
	before, after := p.before[n.Incarnation], p.after[n.Incarnation]
	var from time.Time
	pools := pastPools{}
	if before != nil {
		from, shown.KeyframeAt, shown.Mailbox, shown.Cordoned = before.At, before.At, before.Mailbox, before.Cordoned
		for i := range before.Pools {
			pools.add(&before.Pools[i])
		}
	}
	pools.replay(p.events[n.Incarnation], from, p.at)
	if after != nil {
		pools.lasting(after, p.at)
	}
	for i := range p.Entries {
		e := &p.Entries[i]
		if e.At.Before(from) || e.At.After(p.at) {
			continue
		}
		switch e.Kind {
		case messages.JournalRouter:
			if e.Incarnation == n.Incarnation {
				pools.routed(e)
			}
		case messages.JournalPool:
			pools.conditioned(e, p.at, p.parts[e.Subject] < 2)
		case messages.JournalOperator:
			p.cordoned(e, &shown, pools)
		}
	}
	var cells []Cells
	for _, pool := range pools {
		c := pool.cells(before != nil && state != "silent", p.EventsFrom)
		c.Incarnation, c.Node = n.Incarnation, n.Name
		cells = append(cells, c)
	}
	return shown, cells
}

// cordoned takes a cordon or its end. A name that is both a node's and a pool's says nothing.
func (p *past) cordoned(e *messages.JournalEntry, n *FleetNode, pools pastPools) {
	if e.What != "cordon" && e.What != "uncordon" {
		return
	}
	on := e.What == "cordon"
	pool := pools[e.Subject]
	switch isNode := slices.ContainsFunc(p.Nodes, func(o Node) bool { return o.Name == e.Subject }); {
	case pool != nil && !isNode:
		pool.Cordoned = on
	case pool == nil && e.Subject == n.Name:
		n.Cordoned = on
	}
	node, name, slot, ok := messages.WorkerID(e.Subject).Split()
	if pool := pools[name]; ok && node == n.Name && pool != nil && int(slot) < len(pool.workers) {
		pool.workers[slot].cordoned = on
	}
}

// gaps say which entries of the journal are missing.
func (p *past) gaps() (notes []string) {
	for i := range p.Entries {
		e := &p.Entries[i]
		var d journal.GapDetail
		if e.Kind == messages.JournalGap && json.Unmarshal(e.Detail, &d) == nil {
			notes = append(notes, fmt.Sprintf("%d entries of the kind %s are missing in the journal from %s to %s", d.Entries, e.Subject,
				e.At.UTC().Format(time.RFC3339), d.Until.UTC().Format(time.RFC3339)))
		}
	}
	return notes
}

// routed takes an entry about a pool's router, which the node wrote.
func (ps pastPools) routed(e *messages.JournalEntry) {
	pool := ps[e.Subject]
	if pool == nil {
		return
	}
	var d struct {
		Epoch int64 `json:"epoch"`
	}
	_ = json.Unmarshal(e.Detail, &d) // without a detail the epoch is not known
	pool.Epoch = d.Epoch
	switch e.What {
	case "taken":
		pool.Mode = lead.Leading.String()
	case "given_up", "following":
		pool.Mode = lead.Following.String()
	case "alone":
		pool.Mode = lead.Alone.String()
	}
}

// conditioned takes an entry about a pool's condition, which its router wrote. A pool is broken if all its parts are; of one that is not,
// a part on another node may still be. Alone says that the pool has one part.
func (ps pastPools) conditioned(e *messages.JournalEntry, at time.Time, alone bool) {
	pool := ps[e.Subject]
	if pool == nil || e.What != journal.ConditionChanged {
		return
	}
	now := e.Reason
	var d journal.ConditionDetail
	if json.Unmarshal(e.Detail, &d) == nil && !d.Until.IsZero() && !d.Until.After(at) { // without a detail it changed once
		now = d.Then
	}
	switch {
	case now == roster.PoolBroken.String():
		pool.Broken = true
	case saysNothing[now]:
	case alone || pool.works():
		pool.Broken = false
	}
}

// saysNothing has the conditions with which a router says nothing of the workers.
var saysNothing = map[string]bool{
	roster.Handed.String(): true, roster.NotLoaded.String(): true, roster.StoreAway.String(): true, roster.BrokerAway.String(): true,
	roster.BrokerBlocked.String(): true, roster.Settling.String(): true,
}
