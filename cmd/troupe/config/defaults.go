package config

import (
	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/retry"
)

// defaults is the configuration of somebody who sets nothing. Each component says its own defaults; those that stand here
// are of the command line alone. A switch that is on by default is off in the component's settings where that is their zero.
func defaults() Config {
	c := Config{Listen: "127.0.0.1:7070", Demo: true, Log: Log{Level: "info", Format: "auto"}}
	nodeDefaults(&c)
	judgedDefaults(&c)
	limitDefaults(&c)
	return c
}

func nodeDefaults(c *Config) {
	n := node.Defaults()
	c.Node.BeatInterval, c.Node.Lease = n.BeatEvery, n.Lease
	c.Store = Store{OutageGrace: n.OutageGrace, Events: "changes"}
	c.Executor = Executor{
		ScheduledTimeout: n.ScheduledTimeout, TimeoutCheckInterval: n.TimeoutCheckInterval, HealthCheckInterval: n.HealthCheckInterval,
		DefaultTimeout: n.DefaultTimeout, ClaimTimeout: n.ClaimTimeout, ClaimSweep: !n.ClaimSweepOff, NoWorkerDeadline: n.NoWorkerDeadline,
	}
	c.Worker = Worker{
		HeartbeatInterval: n.HeartbeatInterval, StalenessMultiplier: n.StalenessMultiplier, ShutdownTimeout: n.ShutdownTimeout,
		InitTimeout: n.InitTimeout, Graces: process.DefaultGraces(), SessionTimeout: n.SessionTimeout,
		SessionSweep: n.SessionSweep,
	}
	c.Runtime.EnvPass = n.EnvPass
	c.Retention = Retention{
		Executions: n.RetainExecutions, DeadLetters: n.RetainDeadLetters, Events: n.RetainEvents, Sessions: n.RetainSessions,
		Nodes: n.RetainNodes, Interval: n.RetentionInterval, Batch: n.RetentionBatch,
	}
	q := broker.Defaults()
	c.Broker.RabbitMQ = RabbitMQ{
		Prefix: q.Prefix, QueueType: "quorum", WorkerQueueTTL: q.WorkerTTL, Notices: !n.NoticesOff,
		DeadLetter: DeadLetter{Enabled: !q.DeadLettersOff, Exchange: q.DeadLetterExchange, TTL: q.DeadLetterTTL},
	}
}

// judgedDefaults are of how workers and failures are judged.
func judgedDefaults(c *Config) {
	n, r := node.Defaults(), retry.Defaults()
	c.Pool.Restart = restart.Defaults()
	c.Retry = Retry{
		Enabled: !n.RetryDisabled, Unclassified: retry.UnclassifiedRetry, Shape: string(r.Shape), Base: r.Base, Max: r.Max,
		Multiplier: r.Multiplier, Jitter: r.Jitter, MaxRetries: n.MaxRetries,
	}
	c.Health = Health{
		Enabled: !n.HealthDisabled, Thresholds: health.Defaults(), CountActionErrors: n.CountActionErrors,
		ProbeTimeout: n.ProbeTimeout, ProbeRetry: lifecycle.ProbeAgainAfter, EchoInterval: n.EchoInterval,
	}
}

func limitDefaults(c *Config) {
	a := api.Defaults()
	c.Limits = Limits{
		Frame: messages.FrameMax, Output: messages.OutputMax, Requests: a.RequestsMax, Waits: a.WaitsMax, Batches: a.BatchesMax,
		Connections: api.DefaultConnections(), Bodies: Bytes(a.BodiesMax),
	}
}
