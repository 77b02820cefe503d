package view

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Pool is one pool, summed over the nodes that serve it, or on one of them.
type Pool struct {
	Name    string           `json:"name"`
	Runtime messages.Runtime `json:"runtime"`
	Nodes   int              `json:"nodes"`
	Workers int              `json:"workers"`
	Stale   int              `json:"stale,omitempty"` // workers without a fresh heartbeat, or whose node did not answer
	Ready   int              `json:"ready"`
	// Unattached workers are ready, and get no work.
	Unattached int       `json:"unattached,omitempty" doc:"ready workers whose queue does not deliver, so that they get no work; ready does not count them"`
	Busy       int       `json:"busy"`
	Degraded   int       `json:"degraded"`
	Starting   int       `json:"starting"`
	Broken     bool      `json:"broken"`
	OldCode    bool      `json:"old_code,omitempty" doc:"it runs the code from before a reload, because the new one did not start"`
	Cordoned   bool      `json:"cordoned"`
	Halted     string    `json:"halted,omitempty" doc:"nothing is placed, on any node: store_away, broker_away or broker_blocked"`
	Waiting    int       `json:"waiting"` // requested executions
	More       bool      `json:"waiting_more,omitempty" doc:"more than waiting says: it is counted up to 100,000 for each priority"`
	NotDue     int       `json:"not_due,omitempty" doc:"of waiting: those whose time has not come, so that they are no backlog"`
	Oldest     time.Time `json:"oldest_waiting,omitzero" doc:"when the oldest of those that are due was requested; missing: none is due"`
	Placed     int       `json:"placed"`  // scheduled
	Running    int       `json:"running"` // and cancelling
	Window     int       `json:"window"`  // the largest
	Restarts   int       `json:"restarts"`
	Reason     string    `json:"reason,omitempty"` // why it is broken, or a problem on some node
	Dispatch   string    `json:"dispatch,omitempty" doc:"direct, broker, or mixed where nodes differ: how executions go to the workers"`
	Routing    Routing   `json:"routing"`
}

// Pools holds sums over several nodes, and the nodes that did not answer.
type Pools struct {
	Pools     []Pool
	Unreached []Unreached
}

// Routing names the router of a pool, as the answering node knows it.
type Routing struct {
	Mode      string    `json:"mode" doc:"alone, leading or following: what this node is to the pool"`
	Router    string    `json:"router,omitempty" doc:"the node that leads the pool in the cluster"`
	Epoch     int64     `json:"epoch,omitempty" doc:"the term of that node"`
	Since     time.Time `json:"since,omitzero" doc:"since when this node is in its mode"`
	Followers int       `json:"followers,omitempty" doc:"other nodes whose workers this one places on"`
	Why       string    `json:"why,omitempty" doc:"why this node places on its own workers although another leads"`
}

// PoolShare is the part that one node has of a pool, in detail.
type PoolShare struct {
	Pool
	Slots    []SlotCount   `json:"slots,omitempty"`
	Failures []SlotFailure `json:"failures,omitempty"`
	Queue    *PoolQueue    `json:"queue,omitempty"` // of a node that places executions
}

// PoolDetail is one pool, summed over the nodes that serve it, with its slots and with what waits.
type PoolDetail struct {
	Pool
	Slots     []SlotCount   `json:"slots" doc:"workers by state; unknown: their node did not answer"`
	Failures  []SlotFailure `json:"failures,omitempty" doc:"the last failures of slots that have no worker at work, at most 5 of each node"`
	Queues    []PoolQueue   `json:"queues" doc:"what its router holds; where nodes place by themselves, one of each; empty: none answered"`
	Drain     *Drain        `json:"drain,omitempty" doc:"when what waits is done; missing: the counts could not be read"`
	Unreached []Unreached   `json:"unreached,omitempty"`
}

// SlotCount is how many workers are in a state.
type SlotCount struct {
	State string `json:"state"`
	N     int    `json:"n"`
}

// SlotFailure is why the worker of a slot failed last.
type SlotFailure struct {
	Worker     messages.WorkerID   `json:"worker"`
	State      string              `json:"state"`
	Generation messages.Generation `json:"generation"`
	Restarts   int                 `json:"restarts"`
	Error      string              `json:"error" doc:"up to 1 KiB"`
}

// PoolQueue is what a router holds of what waits. The store has the rest.
type PoolQueue struct {
	Node       string          `json:"node"`
	Mode       string          `json:"mode" doc:"leading: it places for all nodes; alone: on its own workers"`
	Epoch      int64           `json:"epoch,omitempty" doc:"its term"`
	Since      time.Time       `json:"since,omitzero"`
	Held       int             `json:"held" doc:"due executions that wait here"`
	Counted    int             `json:"counted" doc:"of them, that by_priority and by_cause count: up to 1,000"`
	ByPriority []PriorityCount `json:"by_priority" doc:"the highest first"`
	ByCause    []CauseCount    `json:"by_cause" doc:"the most frequent first"`
}

// PriorityCount is how many executions have a priority.
type PriorityCount struct {
	Priority messages.Priority `json:"priority"`
	N        int               `json:"n"`
}

// CauseCount is how many executions wait for a reason.
type CauseCount struct {
	Reason   string `json:"reason" doc:"as why has it"`
	Message  string `json:"message" doc:"the same in a sentence"`
	WhatToDo string `json:"what_to_do,omitempty" doc:"what a person does about it"`
	N        int    `json:"n"`
}

// Due is how many executions wait that could be placed.
func (p *Pool) Due() int { return max(p.Waiting-p.NotDue, 0) }

// Drain is how long what waits takes at the rates of the last minutes.
type Drain struct {
	Waiting int       `json:"waiting" doc:"executions that are due"`
	In      float64   `json:"in_per_second" doc:"that were submitted"`
	Out     float64   `json:"out_per_second" doc:"that ended"`
	From    time.Time `json:"from" doc:"when the time of these rates begins"`
	To      time.Time `json:"to"`
	Seconds *float64  `json:"seconds,omitempty" doc:"waiting, divided by what ends more than comes in; missing: no more ends than comes in"`
}

// NewDrain makes an estimate of the rates of a time.
func NewDrain(waiting int, in, out float64, from, to time.Time) *Drain {
	d := &Drain{Waiting: waiting, In: in, Out: out, From: from, To: to}
	if less := out - in; less > 0 {
		seconds := float64(waiting) / less
		d.Seconds = &seconds
	}
	return d
}
