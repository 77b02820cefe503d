package part

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/placement"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/runtime"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/clock"
)

// Recycle says when a worker is replaced although it is well. Zero fields: never. After how many runs a worker is, it
// knows itself: see actors.WorkerConfig.RunsMax.
type Recycle struct {
	MaxAge    time.Duration
	MaxMemory int64 // bytes, resident, of the process tree
}

// Config is what one pool on one node is made of.
type Config struct {
	System      *actors.System
	Store       store.Store
	Clock       *clock.Clock // the store's; nil: the machine's
	Broker      broker.Broker
	Settings    broker.Settings
	Recorder    *actor.PID
	Delivery    *actor.PID // the delivery bridge
	Logger      hclog.Logger
	Name        string
	Runtime     runtime.Spec
	Node        string
	Incarnation messages.Incarnation
	Workers     int // at the start, and at least
	WorkersMax  int // at most, where work waits; 0: as many as at the start
	// Worker is what the workers share, without System, Recorder, Pool and names, which the pool fills in.
	Worker  actors.WorkerConfig
	Roster  roster.Config
	Restart restart.Policy
	Recycle Recycle

	// Direct: the router hands executions without a session directly to workers whose nodes have it too, and their claims place them. To others,
	// and with a session, the store has the placement first.
	Direct         bool
	ClaimTimeout   time.Duration // 15 s
	HealthInterval time.Duration // 30 s; negative: no probes
	HealthEnabled  bool
	EchoEvery      time.Duration // 30 s
	BeatEvery      time.Duration // written to the workers' rows
	GatherTime     time.Duration // what is stored while many submit waits for others at most so long; 20 ms
	// Halted, where set, says whether a server is away, so that nothing may be placed: a look at what is known, at once.
	Halted func() roster.Reason
	// Cordoned, where set, says at the pool's start whether operators have cordoned it or its node; later changes come as
	// Cordon.
	Cordoned func() (pool, node bool)
	// Fingerprint tells a reload whether the pool's workers must be replaced.
	Fingerprint string
	// Serves names the pool's actions and their versions: nodes share a router only where they serve the same.
	Serves string
	// Peers, where set, reach the other nodes; else the pool routes for its own workers alone.
	Peers *Peers
	// Patience is how long a follower may be silent before its workers leave the router's view; at least, and by default, lead.Patience.
	Patience time.Duration
	// Hooks, where set, count for the metrics.
	Hooks Hooks
	// Journal, where set, records what changed. It may be called from any goroutine and does not wait.
	Journal func(e messages.JournalEntry)
}

// KeyOf names a worker of the pool.
func (c *Config) KeyOf(inc messages.Incarnation, n messages.Slot) messages.WorkerKey {
	return messages.WorkerKey{Incarnation: inc, Pool: c.Name, Slot: n}
}

// Peers are how a pool speaks to the same pool on other nodes. Each call is bounded by its context; an error says that
// nobody knows whether it was taken.
type Peers struct {
	Report     func(ctx context.Context, to messages.Incarnation, r wire.PoolReport) (wire.PoolReportResult, error)
	EndSession func(ctx context.Context, to messages.Incarnation, e wire.EndSession) error
	// Look has the node ask the store at once who leads; it does not wait.
	Look func()
}

// Hooks are told of what the metrics count.
type Hooks struct {
	Restarted func(pool string, delay time.Duration)
	Replaced  func(pool string) // a worker that had not failed: recycled, reloaded, closed by its code or ended by an operator
	Affinity  func(pool string, e placement.Effect)
	TakenBack func(pool, reason string)
	Placed    func(pool string, grades []health.Grade) // of one decision
	Away      func(pool string, d time.Duration)       // from a worker's loss until its slot is ready again
	Echo      func(pool string, took time.Duration, late bool)
	Stale     func(pool string)
	// Mode is told at each change what the node is to the pool, and how many nodes follow it there.
	Mode func(pool string, mode lead.Mode, followers int)
	// Reported is told of each report: taken, refused or failed.
	Reported func(pool string, n lead.News)
}
