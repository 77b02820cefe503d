package roster

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/placement"
)

// Config is a roster's settings. Zero fields mean the defaults.
type Config struct {
	// StaleAfter is how old the heartbeat may be of a worker whose own interval is not known; 30 s. StaleTimes is what the
	// interval of every other is multiplied by; 3.
	StaleAfter time.Duration
	StaleTimes float64
	// SteadyAfter is how long the router must have led, on a steady store, before anything fails with no_workers; one
	// heartbeat interval, 10 s.
	SteadyAfter time.Duration
	// ClaimTimeout is how long a placement may wait for its claim where its answer names no moment; 15 s.
	ClaimTimeout time.Duration
	// ClaimSweepOff leaves placements that are not claimed in time where they are, to the layers of defence behind it.
	ClaimSweepOff bool
	// SessionTimeout is how long a binding lives without use; 5 min. SessionSweep is how often that is looked at; 60 s.
	SessionTimeout time.Duration
	SessionSweep   time.Duration
	// SessionMemory bounds the ended sessions that are remembered; 100,000. The store knows the others: a placement that
	// binds a forgotten one is refused, and the store is asked.
	SessionMemory int
	// Margin is how many executions beyond the free capacity are loaded ahead; 128.
	Margin int
	// LoadMax bounds one Load, for each of its two parts; 5,000.
	LoadMax int
	// HeldMax bounds the waiting executions that are held in memory; 20,000. The store has the others.
	HeldMax int
	// WindowMax bounds the placements dispatched ahead to one worker; 20.
	WindowMax int
	// QueueDepthDegraded is the depth at which a worker counts as degraded, which the window stays below; 50.
	QueueDepthDegraded int
	// Claims is the node whose idle workers have what is offered claimed as it is stored, where it is handed to them directly. Zero:
	// what is offered is stored as placed, on an idle worker of any node.
	Claims messages.Incarnation
	// TickEvery is how often the shell sends a Tick at the least; 1 s. Sleep asks for sooner ones.
	TickEvery time.Duration
}

// Defaults are the settings of a node that sets nothing.
func Defaults() Config { return Config{}.withDefaults() }

func (c Config) withDefaults() Config {
	borders := health.Defaults()
	fill(&c.StaleAfter, borders.Heartbeat)
	fill(&c.StaleTimes, 3)
	fill(&c.SteadyAfter, 10*time.Second)
	fill(&c.ClaimTimeout, 15*time.Second)
	fill(&c.SessionTimeout, 5*time.Minute)
	fill(&c.SessionSweep, time.Minute)
	fill(&c.SessionMemory, 100_000)
	fill(&c.Margin, 128)
	fill(&c.LoadMax, 5000)
	fill(&c.HeldMax, 20_000)
	fill(&c.WindowMax, placement.WindowMax)
	fill(&c.QueueDepthDegraded, borders.QueueDepthDegraded)
	fill(&c.TickEvery, time.Second)
	return c
}

func fill[T int | float64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Bounds of one Step's and one Tick's work, so that no event makes a roster late for the next.
const (
	failsPerStep    = 1000 // executions failed for want of workers
	sweepPerTick    = 1000 // session bindings looked at
	patientsPerTick = 256  // executions that wait for any worker, looked at for their deadline
	ignoredMax      = 10_000
	backedMax       = 1024
	topEvery        = 100 * time.Millisecond // between two looks from the top while there is enough to place
)
