package store

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Router is who leads a pool's routing: of all nodes that serve the pool, the one that places its executions.
type Router struct {
	Pool        string               `json:"pool"`
	Incarnation messages.Incarnation `json:"incarnation,omitzero"` // zero: it was given up, and nobody has taken it since
	// Epoch is the number of the taking: it grows by one with each, whoever takes.
	Epoch int64 `json:"epoch"`
	// Since is when it was taken, or given up.
	Since time.Time `json:"since"`
}

// Routing is the part of the store that knows who leads each pool's routing. The row says who may place; that a placement
// happens once is still the business of each execution's own compare-and-set.
type Routing interface {
	// Lead takes all of the pools that nobody leads: no row, one that was given up, or one whose incarnation is unknown,
	// dead, or has let its lease run out by the store's clock. Each taking raises the pool's epoch by one. Only an incarnation
	// that is active and whose own lease is live takes any. Of two that take a pool at once one gets it, and a lease that is
	// being renewed meanwhile is live. It may be repeated: what the caller leads already stays as it is.
	//
	// It returns, by name, all of the pools that have a leader afterwards, whoever that is; it may be one whose lease has run
	// out, where the caller may not take. A store that one node alone uses evaluates no lease.
	Lead(ctx context.Context, inc messages.Incarnation, pools []string) ([]Router, error)
	// Resign gives up what the incarnation leads of the pools, or all that it leads where pools is nil, and tells the
	// other nodes (HintRouter). SetNode does the same in its own transaction for a node that is no longer active.
	Resign(ctx context.Context, inc messages.Incarnation, pools []string) error
	// Routers returns every row, by pool, those of ended incarnations included. Rows stay, so that epochs never begin anew.
	Routers(ctx context.Context) ([]Router, error)
}
