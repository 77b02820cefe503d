package main

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
)

// forEver is how node.Config says what the configuration writes as 0.
const forEver = time.Duration(-1)

// nodeConfig hands the configuration on. TestEveryKeyReachesTheNode keeps it complete.
func nodeConfig(c *config.Config, logger hclog.Logger) node.Config {
	n := node.Config{
		Name: c.Node.Name, Data: c.Data, Listen: c.Listen, HealthListen: c.HealthListen, HealthMetrics: c.HealthMetrics, Packs: c.Packs, NoDemo: !c.Demo, Tokens: tokens(c.Tokens), Logger: logger,
		TokensFile: tokensFile(c.TokensFile), TLS: c.TLS,
		Version: version, Runtimes: config.Runtimes(), Workers: c.Pool.Workers.Map(), Interpreters: c.Runtime.Interpreters.Map(), EnvPass: c.Runtime.EnvPass,
		ForgetEnv: func(names []string) error { return forgetVariables(names, nil) },
		EventsAll: c.Store.Events == "all", Broker: brokerSettings(&c.Broker.RabbitMQ),
		StoreURL: c.Store.URL, BrokerURL: c.Broker.RabbitMQ.URL, BrokerTLS: c.Broker.RabbitMQ.TLS,
		NoticesOff: !c.Broker.RabbitMQ.Notices, OutageGrace: c.Store.OutageGrace,
		Lease: c.Node.Lease, BeatEvery: c.Node.BeatInterval, Peers: c.Node.Peers,
		Requests: c.Limits.Requests, Waits: c.Limits.Waits, Batches: c.Limits.Batches,
		Bodies: int64(c.Limits.Bodies), Connections: c.Limits.Connections,
		OutputMax: int(c.Limits.Output), FrameMax: int(c.Limits.Frame),
	}
	stages(&n, c)
	care(&n, c)
	retention(&n, &c.Retention)
	return n
}

// tokens are the list's; Load has checked it.
func tokens(list []config.Token) []api.Token {
	made, _ := config.APITokens(list)
	return made
}

func tokensFile(path string) (f api.TokensFile) {
	if path != "" {
		f = api.TokensFile{Path: path, Read: func() ([]api.Token, error) { return config.ReadTokens(path) }}
	}
	return f
}

func brokerSettings(c *config.RabbitMQ) broker.Settings {
	return broker.Settings{
		Prefix: c.Prefix, WorkerTTL: c.WorkerQueueTTL, DeadLettersOff: !c.DeadLetter.Enabled,
		DeadLetterExchange: c.DeadLetter.Exchange, DeadLetterTTL: c.DeadLetter.TTL, Classic: c.QueueType == "classic",
	}
}

// stages are the times of an execution's way, and of a worker's life.
func stages(n *node.Config, c *config.Config) {
	e, w := &c.Executor, &c.Worker
	n.ScheduledTimeout, n.TimeoutCheckInterval = e.ScheduledTimeout, e.TimeoutCheckInterval
	n.HealthCheckInterval, n.DefaultTimeout = e.HealthCheckInterval, e.DefaultTimeout
	n.ClaimTimeout, n.ClaimSweepOff, n.NoWorkerDeadline = e.ClaimTimeout, !e.ClaimSweep, e.NoWorkerDeadline
	n.HeartbeatInterval, n.StalenessMultiplier = w.HeartbeatInterval, w.StalenessMultiplier
	n.ShutdownTimeout, n.InitTimeout = w.ShutdownTimeout, w.InitTimeout
	n.Graces = w.Graces
	n.SessionTimeout, n.SessionSweep = w.SessionTimeout, w.SessionSweep
}

// care is how workers are judged, restarted and retried.
func care(n *node.Config, c *config.Config) {
	h, r := &c.Health, &c.Retry
	n.Restart = c.Pool.Restart
	n.Retry = messages.RetryPolicy{Shape: messages.RetryShape(r.Shape), Base: r.Base, Multiplier: r.Multiplier, Max: r.Max, Jitter: r.Jitter}
	if r.Jitter == 0 {
		n.Retry.Jitter = -1 // none, where 0 would be the default
	}
	n.RetryRules.Unclassified = r.Unclassified
	n.RetryDisabled, n.MaxRetries = !r.Enabled, r.MaxRetries
	n.Thresholds = h.Thresholds
	n.Thresholds.Heartbeat = time.Duration(float64(c.Worker.HeartbeatInterval) * c.Worker.StalenessMultiplier)
	n.HealthDisabled, n.CountActionErrors = !h.Enabled, h.CountActionErrors
	n.ProbeTimeout, n.ProbeAgain, n.EchoInterval = h.ProbeTimeout, h.ProbeRetry, h.EchoInterval
}

func retention(n *node.Config, c *config.Retention) {
	for _, f := range []struct {
		to   *time.Duration
		from time.Duration
	}{
		{&n.RetainExecutions, c.Executions}, {&n.RetainDeadLetters, c.DeadLetters}, {&n.RetainEvents, c.Events},
		{&n.RetainSessions, c.Sessions}, {&n.RetainNodes, c.Nodes},
	} {
		if *f.to = f.from; f.from == 0 {
			*f.to = forEver
		}
	}
	n.RetentionInterval, n.RetentionBatch = c.Interval, c.Batch
}
