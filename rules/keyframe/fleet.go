package keyframe

import (
	"cmp"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Letters of slots beside StateLetters.
const (
	Up      = 'u' // it worked: it was ready or busy, or degraded before. Runs that end well are not recorded
	Unknown = '?' // it is not known what was there
)

// Fleet is what nodes, pools and workers are, or were at a time, in few bytes.
type Fleet struct {
	At      time.Time   `json:"at,omitzero"`
	Nodes   []FleetNode `json:"nodes" doc:"those that live, or lived then"`
	Pools   []Cells     `json:"pools" doc:"each node's part of each pool"`
	Partial bool        `json:"partial,omitempty" doc:"something of the time was not recorded or not read; notes says what"`
	Notes   []string    `json:"notes,omitempty"`
}

// FleetNode is a node of a Fleet.
type FleetNode struct {
	Incarnation messages.Incarnation `json:"incarnation"`
	Name        string               `json:"name"`
	Version     string               `json:"version,omitempty"`
	State       string               `json:"state" doc:"active or draining; of the past also late: it did not renew its lease, and silent: it had renewed it for the last time and was not declared dead yet"`
	Cordoned    bool                 `json:"cordoned,omitempty"`
	StartedAt   time.Time            `json:"started_at,omitzero"`
	KeyframeAt  time.Time            `json:"keyframe_at,omitzero" doc:"of the past: when the node stored what it was; grades, sessions and mailboxes are of this time. Left out: it stored nothing in the hour before"`
	Mailbox     int                  `json:"mailbox,omitempty" doc:"messages in the fullest mailbox of its actors outside of pools"`
}

// Cells are a node's part of a pool.
type Cells struct {
	Incarnation messages.Incarnation  `json:"incarnation"`
	Node        string                `json:"node" doc:"its name"`
	Name        string                `json:"name" doc:"of the pool"`
	Runtime     messages.Runtime      `json:"runtime,omitempty"`
	Slots       string                `json:"slots" doc:"a letter for the worker of each slot, from slot 0 on: i initializing, r ready, b busy, d degraded, t terminating, x terminated, - no worker; of the past also u: it worked, ready or busy, and ?: not known"`
	Grades      string                `json:"grades" doc:"the grades of the same workers: h healthy, d degraded, u unhealthy, ? not known, - no worker"`
	Cordons     string                `json:"cordons,omitempty" doc:"1 for each of them that is cordoned and 0 for each other; left out where none is"`
	Generations []messages.Generation `json:"generations" doc:"of the same workers; 0: no worker"`
	Broken      bool                  `json:"broken,omitempty" doc:"all its workers there keep failing; of the past as its router noted it, or else as of keyframe_at"`
	Cordoned    bool                  `json:"cordoned,omitempty"`
	Mode        string                `json:"mode,omitempty" doc:"alone, leading or following: what the node is to the pool"`
	Epoch       int64                 `json:"epoch,omitempty" doc:"the term of the node that leads"`
	Bound       int                   `json:"bound,omitempty" doc:"sessions that are bound to workers; known where the node leads, or is alone"`
	Mailbox     int                   `json:"mailbox,omitempty" doc:"messages in the fullest mailbox of the pool's actors"`
}

// CellsOf are the cells of a pool.
func CellsOf(p *Pool) Cells {
	cells := make([]cell, len(p.Slots))
	for i := range p.Slots {
		cells[i] = cellOf(&p.Slots[i])
	}
	return p.show(cells)
}

// show are the cells of a pool with such workers.
func (p *Pool) show(cells []cell) Cells {
	c := Cells{Name: p.Name, Runtime: p.Runtime, Broken: p.Broken, Cordoned: p.Cordoned, Mode: p.Mode, Epoch: p.Epoch, Bound: p.Bound, Mailbox: p.Mailbox}
	states, grades, cordons, some := make([]byte, len(cells)), make([]byte, len(cells)), make([]byte, len(cells)), false
	c.Generations = make([]messages.Generation, len(cells))
	for i := range cells {
		one := &cells[i]
		states[i], grades[i], cordons[i], c.Generations[i] = one.state, one.grade, '0', one.generation
		if one.cordoned {
			cordons[i], some = '1', true
		}
	}
	c.Slots, c.Grades = string(states), string(grades)
	if some {
		c.Cordons = string(cordons)
	}
	return c
}

// cell is a worker as it is shown.
type cell struct {
	state, grade byte
	cordoned     bool
	generation   messages.Generation
}

func cellOf(s *Slot) cell {
	if !s.Used {
		return cell{state: noWorker, grade: noWorker}
	}
	return cell{letter(StateLetters, int(s.State)), letter(GradeLetters, int(s.Grade)), s.Cordoned, s.Generation}
}

// Sort orders the nodes by name and the pools by name and node, so that two of the same fleet are alike.
func (f *Fleet) Sort() {
	slices.SortFunc(f.Nodes, func(a, b FleetNode) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.Incarnation[:], b.Incarnation[:]))
	})
	slices.SortFunc(f.Pools, func(a, b Cells) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node), slices.Compare(a.Incarnation[:], b.Incarnation[:]))
	})
}
