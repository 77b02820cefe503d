package view

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Pool is one pool, summed over the nodes that serve it, or on one of them.
type Pool struct {
	Name     string           `json:"name"`
	Runtime  messages.Runtime `json:"runtime"`
	Nodes    int              `json:"nodes"`
	Workers  int              `json:"workers"`
	Stale    int              `json:"stale,omitempty"` // workers without a fresh heartbeat, or whose node did not answer
	Ready    int              `json:"ready"`
	Busy     int              `json:"busy"`
	Degraded int              `json:"degraded"`
	Starting int              `json:"starting"`
	Broken   bool             `json:"broken"`
	OldCode  bool             `json:"old_code,omitempty" doc:"it runs the code from before a reload, because the new one did not start"`
	Cordoned bool             `json:"cordoned"`
	Waiting  int              `json:"waiting"` // requested executions
	More     bool             `json:"waiting_more,omitempty" doc:"more than waiting says: it is counted up to 100,000 for each priority"`
	Oldest   time.Time        `json:"oldest_waiting,omitzero" doc:"when the oldest of them was requested, also if it is not due yet"`
	Placed   int              `json:"placed"`  // scheduled
	Running  int              `json:"running"` // and cancelling
	Window   int              `json:"window"`  // the largest
	Restarts int              `json:"restarts"`
	Reason   string           `json:"reason,omitempty"` // why it is broken, or a problem on some node
	Routing  Routing          `json:"routing"`
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
