package config

import (
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/retry"
)

// defaults is the configuration of somebody who sets nothing. Each component says its own defaults; those that stand here
// are of the command line alone. A switch that is on by default is off in the component's settings where that is their zero.
func defaults() Config {
	c := Config{Listening: Listening{Listen: "127.0.0.1:7070"}, Demo: true, Log: Log{Level: "info", Format: "auto"}}
	nodeDefaults(&c)
	retryDefaults(&c)
	return c
}

func nodeDefaults(c *Config) {
	n := node.Defaults()
	c.Node.BeatInterval, c.Node.Lease = n.BeatEvery, n.Lease
	c.Store = Store{OutageGrace: n.OutageGrace, Events: "changes"}
	c.Executor, c.Worker, c.Health, c.Limits, c.Retention, c.Webhooks = n.Executor, n.Worker, n.Health, n.Limits, n.Retention, n.Webhooks
	c.Runtime.EnvPass, c.Console, c.Tracing = n.EnvPass, n.Console, n.Tracing
	q := broker.Defaults()
	c.Broker.RabbitMQ = RabbitMQ{
		Prefix: q.Prefix, QueueType: "quorum", WorkerQueueTTL: q.WorkerTTL, Notices: !n.NoticesOff,
		DeadLetter: DeadLetter{Enabled: !q.DeadLettersOff, Exchange: q.DeadLetterExchange, TTL: q.DeadLetterTTL},
	}
}

// retryDefaults are of how failures are judged, and workers restarted.
func retryDefaults(c *Config) {
	n, r := node.Defaults(), retry.Defaults()
	c.Pool.Restart = restart.Defaults()
	c.Retry = Retry{
		Enabled: !n.RetryDisabled, Unclassified: retry.UnclassifiedRetry, Shape: string(r.Shape), Base: r.Base, Max: r.Max,
		Multiplier: r.Multiplier, Jitter: r.Jitter, MaxRetries: n.MaxRetries,
	}
}
