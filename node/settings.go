package node

import (
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/tracing"
)

// ForEver keeps what has ended, in Retention.
const ForEver = time.Duration(-1)

// The parts of Config below are also those of the command line's configuration, which reads their tags (cmd/troupe/config): yaml is the
// name of a key, unit that of a bare number, range what it may be. A key that is on where its field says that something is off has the tag
// on:"false"; a key whose 0 means for ever has zero:"forever". A field without a name is set by programs alone.

// Executor bounds the stages of an execution.
type Executor struct {
	ScheduledTimeout     time.Duration `yaml:"scheduled_timeout" range:"1..172800" unit:"s" help:"Longest time from first placement to start. After it an execution fails with start_timeout. At least 10 s above the worker queues' TTL."`
	TimeoutCheckInterval time.Duration `yaml:"timeout_check_interval" range:"0.1..3600" unit:"s" help:"How often the timeout monitor looks for executions past scheduled_timeout."`
	HealthCheckInterval  time.Duration `yaml:"health_check_interval" range:"0.1..3600" unit:"s" help:"How often an idle worker is probed."`
	DefaultTimeout       time.Duration `yaml:"default_timeout" range:"0.1..2592000" unit:"s" help:"Run timeout of actions that set none."`
	ClaimTimeout         time.Duration `yaml:"claim_timeout" range:"0.1..3600" unit:"s" help:"Longest time from placement to claim. After it a placement is taken back and placed elsewhere."`
	ClaimSweepOff        bool          `yaml:"claim_sweep" on:"false" help:"Whether placements past claim_timeout are taken back. Switch it off only to test the other layers."`
	NoWorkerDeadline     time.Duration `yaml:"no_worker_deadline" range:"0.1..2592000" unit:"s" help:"How long an action with on_no_worker: wait waits for any worker."`
}

func executorDefaults() Executor {
	return Executor{
		ScheduledTimeout: 330 * time.Second, TimeoutCheckInterval: time.Minute, HealthCheckInterval: 30 * time.Second,
		DefaultTimeout: submit.TimeoutDefault, ClaimTimeout: roster.Defaults().ClaimTimeout, NoWorkerDeadline: time.Hour,
	}
}

// Worker holds for every worker.
type Worker struct {
	HeartbeatInterval   time.Duration  `yaml:"heartbeat_interval" range:"0.1..3600" unit:"s" help:"How often workers' heartbeats are written."`
	StalenessMultiplier float64        `yaml:"heartbeat_staleness_multiplier" range:"1.5..100" help:"A worker is stale when its heartbeat is older than the interval times this."`
	ShutdownTimeout     time.Duration  `yaml:"shutdown_timeout" range:"0.1..86400" unit:"s" flag:"shutdown-timeout" help:"How long running work may continue after the node is told to stop."`
	InitTimeout         time.Duration  `yaml:"init_timeout" range:"0.1..3600" unit:"s" help:"From a process's start to its answer to hello."`
	Graces              process.Graces // of the stop ladder
	SessionTimeout      time.Duration  `yaml:"session_timeout" range:"1..2592000" unit:"s" help:"How long a session may be idle before its binding ends."`
	SessionSweep        time.Duration  `yaml:"session_sweep_interval" range:"0.1..3600" unit:"s" help:"How often idle bindings are looked for."`
	KeepWithin          time.Duration  // that a snapshot may hold up a worker's next run
}

func workerDefaults() Worker {
	routing := roster.Defaults()
	return Worker{
		HeartbeatInterval: routing.SteadyAfter, StalenessMultiplier: routing.StaleTimes, ShutdownTimeout: 30 * time.Second,
		InitTimeout: 30 * time.Second, Graces: process.DefaultGraces(), SessionTimeout: routing.SessionTimeout, SessionSweep: routing.SessionSweep,
		KeepWithin: time.Second,
	}
}

// Health is how workers are judged.
type Health struct {
	HealthDisabled    bool              `yaml:"enabled" on:"false" help:"Whether workers are probed, and whether probes and faults grade, degrade and replace them. Off: a worker gets work while its heartbeat is fresh, and is replaced when its process ends."`
	Thresholds        health.Thresholds // Heartbeat follows from the worker's settings
	CountActionErrors bool              `yaml:"count_action_errors" help:"Whether every failed execution counts as its worker's fault."`
	ProbeTimeout      time.Duration     `yaml:"probe_timeout" range:"0.1..600" unit:"s" help:"How long a probe may take."`
	ProbeAgain        time.Duration     `yaml:"probe_retry" range:"0.1..600" unit:"s" help:"Time from a failed probe to the next."`
	EchoInterval      time.Duration     `yaml:"echo_interval" range:"0.1..3600" unit:"s" help:"How often each pool's dispatch echo is sent."` // negative: none
}

func healthDefaults() Health {
	return Health{
		Thresholds: health.Defaults(), ProbeTimeout: 5 * time.Second, ProbeAgain: lifecycle.ProbeAgainAfter, EchoInterval: 30 * time.Second,
	}
}

// Limits bounds what one caller, worker or connection may take.
type Limits struct {
	FrameMax    int `yaml:"frame" unit:"B" range:"65536..268435456" help:"Largest frame of a worker process."`
	OutputMax   int `yaml:"output" unit:"B" range:"1..268435456" help:"Largest part kept of each of stdout and stderr of an execution."`
	Requests    int `yaml:"requests" range:"1..1000000" help:"API requests in flight, without waits and streams."`
	Waits       int `yaml:"waits" range:"1..1000000" help:"Long polls and live streams in flight."`
	Batches     int `yaml:"batches" range:"1..1000" help:"Batch submissions in flight."`
	Connections api.Connections
	Bodies      int64 `yaml:"bodies" unit:"B" range:"4194304..68719476736" help:"Request bodies held at once. The node needs about three times this memory for them. Batches leave a quarter of it to other requests. Of the rest, the batches of one token may use half, or one largest batch."`
}

func limitDefaults() Limits {
	a := api.Defaults()
	return Limits{
		FrameMax: messages.FrameMax, OutputMax: messages.OutputMax, Requests: a.RequestsMax, Waits: a.WaitsMax, Batches: a.BatchesMax,
		Connections: api.DefaultConnections(), Bodies: a.BodiesMax,
	}
}

// Retention says how long what has ended is kept.
type Retention struct {
	RetainExecutions  time.Duration `yaml:"executions" zero:"forever" range:"0..316224000" unit:"s" help:"Ended executions, with output and events. 0: for ever."`
	RetainDeadLetters time.Duration `yaml:"dead_letters" zero:"forever" range:"0..316224000" unit:"s" help:"Dead letters. 0: for ever."`
	RetainEvents      time.Duration `yaml:"worker_events" zero:"forever" range:"0..316224000" unit:"s" help:"Workers' transitions. 0: for ever."`
	RetainJournal     time.Duration `yaml:"journal" zero:"forever" range:"0..316224000" unit:"s" help:"The journal: what happened to nodes, pools, routers, sessions and servers, and what operators did. Also the counts of executions by minute, for 6 hours at least, what the workers were every few minutes, and ended operations. 0: for ever."`
	RetainCounts      time.Duration `yaml:"counts" zero:"forever" range:"0..316224000" unit:"s" help:"The counts of executions by the hour, and of those that were deleted. 0: for ever."`
	RetainSessions    time.Duration `yaml:"sessions" zero:"forever" range:"0..316224000" unit:"s" help:"Unbound sessions, since their last use. 0: for ever."`
	RetainNodes       time.Duration `yaml:"nodes" zero:"forever" range:"0..316224000" unit:"s" help:"Dead incarnations. 0: for ever."`
	RetentionInterval time.Duration `yaml:"interval" range:"0.1..86400" unit:"s" help:"How often old rows are deleted."`
	RetentionBatch    int           `yaml:"batch" range:"1..100000" help:"Rows of each kind deleted at once."`
}

// minutesKept is how long counts by minute are kept: until those by the hour are made of them; negative: for ever.
func (r *Retention) minutesKept() time.Duration {
	if r.RetainJournal < 0 {
		return r.RetainJournal
	}
	return max(r.RetainJournal, rollup.MinutesLeast)
}

func retentionDefaults() Retention {
	const day = 24 * time.Hour
	return Retention{
		RetainExecutions: 7 * day, RetainDeadLetters: day, RetainEvents: 7 * day, RetainJournal: 7 * day, RetainCounts: 90 * day, RetainSessions: 7 * day, RetainNodes: 7 * day,
		RetentionInterval: time.Minute, RetentionBatch: 1000,
	}
}

// Defaults is the configuration whose fields hold the defaults of all that is one value on every machine. What a component
// decides by, it says itself.
func Defaults() Config {
	member := membership.Defaults()
	return Config{
		EnvPass: []string{"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"}, Version: "dev",
		Lease: member.Lease, BeatEvery: member.Beat, OutageGrace: member.Grace, SweepInterval: 2 * time.Second,
		Executor: executorDefaults(), Worker: workerDefaults(), Health: healthDefaults(), Limits: limitDefaults(), Retention: retentionDefaults(),
		Console: api.DefaultConsole(), Webhooks: webhookDefaults(), Tracing: tracing.Defaults(),
	}
}
