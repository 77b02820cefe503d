package part

import (
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
)

// Description is a pool seen from inside.
type Description struct {
	Name     string
	Runtime  messages.Runtime
	Router   roster.Snapshot
	Seen     []roster.WorkerView // each worker as the router sees it, where that was asked for
	Waits    roster.Waits        // what is held waits for, where that was asked for
	Workers  []WorkerState
	State    restart.State
	Cordoned bool
	Broken   string // why, in a line; empty: it is not
	// OldCode counts the workers that still run the code from before a reload, because the new one did not start. Failed is why, or why
	// a slot waits for its next start.
	OldCode  int
	Failed   string
	Started  bool // its first start round has ended
	Echo     time.Duration
	EchoLate bool
	Lead     Leading
	// UnattachedWhy is why the queue of a ready worker does not deliver; empty: all do.
	UnattachedWhy string
	Direct        bool // its workers get executions directly
}

// Leading is who routes for a pool, as one node knows it.
type Leading struct {
	Mode      lead.Mode
	Since     time.Time            // zero: since the pool's start
	Router    messages.Incarnation // zero: nobody leads
	Name      string               // of the router's node
	Epoch     int64
	Followers int    // nodes that report to this one
	Why       string // this node is alone although another leads
}

// String tells a person.
func (l Leading) String() string {
	switch {
	case l.Mode == lead.Leading:
		return fmt.Sprintf("routes for the cluster, term %d; %d other nodes follow", l.Epoch, l.Followers)
	case l.Mode == lead.Following:
		return fmt.Sprintf("follows the router on node %s, term %d", l.Name, l.Epoch)
	case l.Router.IsZero():
		return "routes for its own workers"
	case l.Why == "":
		return fmt.Sprintf("routes for its own workers; node %s leads, term %d", l.Name, l.Epoch)
	}
	return fmt.Sprintf("routes for its own workers, for it cannot follow node %s: %s", l.Name, l.Why)
}

// WorkerState is one slot as its pool knows it.
type WorkerState struct {
	Slot        messages.Slot
	ID          messages.WorkerID
	PID         *actor.PID
	Generation  messages.Generation
	State       lifecycle.State
	Health      lifecycle.Health
	Grade       health.Grade  // with its heartbeat
	Causes      health.Causes // of the grade
	Report      health.Capabilities
	Since       time.Time
	Cordoned    bool
	Pid         int
	Restarts    int
	LastFailure string
	Beat        time.Time
	Execution   messages.ExecutionID
	Unattached  time.Duration // ready for so long without a queue that delivers
}

// Unattached says which ready workers get no work because their queue does not deliver, and why; empty: there is none.
func (d *Description) Unattached() (workers int, all bool, text string) {
	var named []string
	ready, longest := 0, time.Duration(0)
	for i := range d.Workers {
		w := &d.Workers[i]
		if w.State == lifecycle.Ready || w.State == lifecycle.Busy || w.State == lifecycle.Degraded {
			ready++
		}
		if w.Unattached == 0 {
			continue
		}
		if workers++; workers <= namedMax {
			named = append(named, string(w.ID))
		}
		longest = max(longest, w.Unattached)
	}
	if workers == 0 {
		return 0, false, ""
	}
	if workers > namedMax {
		named = append(named, "…")
	}
	text = fmt.Sprintf("%d of %d workers are ready and get no work, for their queue has not delivered for %v (%s)",
		workers, len(d.Workers), longest.Round(time.Second), strings.Join(named, ", "))
	if d.UnattachedWhy != "" {
		text += ": " + d.UnattachedWhy
	}
	return workers, workers == ready, text
}

// namedMax bounds the workers that one text names.
const namedMax = 3
