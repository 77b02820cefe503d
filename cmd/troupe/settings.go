package main

import (
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
)

// nodeConfig hands the configuration on. TestEveryKeyReachesTheNode keeps it complete.
func nodeConfig(c *config.Config, logger hclog.Logger) node.Config {
	n := node.Config{
		Name: c.Node.Name, Data: c.Data, Listen: c.Listen, HealthListen: c.HealthListen, HealthMetrics: c.HealthMetrics, Packs: c.Packs, NoDemo: !c.Demo, Tokens: tokens(c.Tokens), Logger: logger,
		TokensFile: tokensFile(c.TokensFile), TLS: c.TLS, Console: c.Console, BasePath: c.HTTP.BasePath,
		Version: version, Runtimes: config.Runtimes(), Workers: c.Pool.Workers.Map(), Interpreters: c.Runtime.Interpreters.Map(), EnvPass: c.Runtime.EnvPass,
		ForgetEnv: func(names []string) error { return forgetVariables(names, nil) },
		EventsAll: c.Store.Events == "all", Broker: brokerSettings(&c.Broker.RabbitMQ),
		StoreURL: c.Store.URL, BrokerURL: c.Broker.RabbitMQ.URL, BrokerTLS: c.Broker.RabbitMQ.TLS,
		Dispatching: c.Dispatching, NoticesOff: !c.Broker.RabbitMQ.Notices, OutageGrace: c.Store.OutageGrace,
		Lease: c.Node.Lease, BeatEvery: c.Node.BeatInterval, Peers: c.Node.Peers,
		Executor: c.Executor, Worker: c.Worker, Health: c.Health, Limits: c.Limits, Retention: c.Retention, Restart: c.Pool.Restart, Webhooks: c.Webhooks,
		Tracing: c.Tracing,
	}
	retries(&n, &c.Retry)
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

// retries are what is retried, and when.
func retries(n *node.Config, r *config.Retry) {
	n.Retry = messages.RetryPolicy{Shape: messages.RetryShape(r.Shape), Base: r.Base, Multiplier: r.Multiplier, Max: r.Max, Jitter: r.Jitter}
	if r.Jitter == 0 {
		n.Retry.Jitter = -1 // none, where 0 would be the default
	}
	n.RetryRules.Unclassified = r.Unclassified
	n.RetryDisabled, n.MaxRetries = !r.Enabled, r.MaxRetries
}
