package store

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Router says which of the nodes that serve a pool is its router: the node that places the pool's executions.
type Router struct {
	Pool        string               `json:"pool"`
	Incarnation messages.Incarnation `json:"incarnation,omitzero"` // zero: it was given up, and no node has taken it since
	// Epoch counts how often the pool was taken, by any node.
	Epoch int64 `json:"epoch"`
	// Since is when it was taken or given up.
	Since time.Time `json:"since"`
}

// Routing is the part of the store that holds the router of each pool. The row says which node may place. The
// compare-and-set of each execution ensures that a placement happens once.
type Routing interface {
	// Lead takes all of the pools without a leader: no row, a row that was given up, or one whose incarnation is unknown,
	// dead, or has an expired lease by the store's clock. Each taking raises the pool's epoch by one. Only an active
	// incarnation with a live lease of its own takes any. If two take a pool at the same time, one gets it; a lease that
	// is being renewed meanwhile counts as live. Lead may be repeated: pools that the caller leads do not change.
	//
	// It returns, by name, all of the pools that have a leader afterwards, with any leader. If the caller may not take a
	// pool, its leader's lease may have expired. A store with one node evaluates no lease.
	Lead(ctx context.Context, inc messages.Incarnation, pools []string) ([]Router, error)
	// Resign gives up those of the pools that the incarnation leads, or all that it leads if pools is nil, and tells the
	// other nodes (HintRouter). SetNode does the same in its own transaction for a node that is no longer active.
	Resign(ctx context.Context, inc messages.Incarnation, pools []string) error
	// Routers returns every row, by pool, also those of ended incarnations. Rows stay, so that an epoch never starts
	// again.
	Routers(ctx context.Context) ([]Router, error)
}
