package link

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
	"github.com/troupe-run/troupe/test/still"
)

// listed is a store that shows what stands on workers, and has nothing else.
type listed struct {
	store.Store
	live []messages.Execution
}

func (l *listed) Live(context.Context, string) ([]messages.Execution, error) { return l.live, nil }
func (l *listed) ListNodes(context.Context) ([]store.Node, error)            { return nil, nil }
func (l *listed) BoundSessions(context.Context, store.BoundQuery) ([]store.Session, error) {
	return nil, nil
}
func (l *listed) Due(context.Context, store.DueQuery) (store.DuePage, error) {
	return store.DuePage{}, nil
}

var nearby, faraway = messages.Incarnation{1}, messages.Incarnation{2}

// alone is what a part of a pool needs, alone.
func alone() (*part.Shared, *still.World, *listed) {
	w, l := still.New(), &listed{}
	cfg := &part.Config{Logger: hclog.NewNullLogger(), Name: "pool", Node: "node", Incarnation: nearby, Store: l, ClaimTimeout: time.Minute}
	return &part.Shared{Config: cfg, World: w, WorkerConfig: &actors.WorkerConfig{}}, w, l
}

// idle is a worker of a node that could take work.
func idle(w *still.World, of messages.Incarnation) roster.WorkerSeen {
	return roster.WorkerSeen{
		Worker: messages.WorkerKey{Incarnation: of, Pool: "pool"}, ID: "n/pool/0", Queue: "queue", Generation: 1, Accepts: true,
		Active: true, Grade: health.Healthy, BeatAt: w.Time, BeatEvery: time.Minute,
	}
}
