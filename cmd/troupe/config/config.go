package config

import (
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/tracing"
)

// Config is everything that can be set on a node. A field without a tag is what a component takes as it stands: the component
// tags it. Durations are time.Duration; in files and the environment a bare
// number has the unit of its key, and a text such as "90s" or "5m" says its own.
type Config struct {
	Listening
	Data  string   `yaml:"data" flag:"data" help:"Folder of the node's data; created if it is missing. Empty: troupe in the XDG state folder (~/.local/state)."`
	Packs []string `yaml:"packs" list:"paths" flag:"packs" help:"Folders of packs, beside the built-in core pack."`
	Demo  bool     `yaml:"demo" flag:"demo" help:"Serve the built-in pack demo, with example actions, if there is a Python interpreter."`
	node.Dispatching
	Access

	Node      Node             `yaml:"node"`
	Log       Log              `yaml:"log"`
	Store     Store            `yaml:"store"`
	Broker    Broker           `yaml:"message_queue"`
	Executor  node.Executor    `yaml:"executor"`
	Worker    node.Worker      `yaml:"worker"`
	Pool      Pool             `yaml:"pool"`
	Runtime   Runtime          `yaml:"runtime"`
	Retry     Retry            `yaml:"retry"`
	Health    node.Health      `yaml:"health"`
	Limits    node.Limits      `yaml:"limits"`
	Retention node.Retention   `yaml:"retention"`
	Webhooks  node.Webhooks    `yaml:"webhooks"`
	Tracing   tracing.Settings `yaml:"tracing"`
	Shutdown  Shutdown         `yaml:"shutdown"`
	Debug     Debug            `yaml:"debug"`
}

// Listening says where the node listens.
type Listening struct {
	Listen        string `yaml:"listen" flag:"listen" help:"Address of the HTTP API. Anything but a loopback address needs tokens."`
	HealthListen  string `yaml:"health_listen" help:"Address of a port for /healthz and /readyz only, independent of the load on the API's port, as in 0.0.0.0:7072. Empty: none."`
	HealthMetrics bool   `yaml:"health_metrics" help:"Serve /metrics at health_listen too, without a token."`
}

// Access says who may call the API, and how that is secured.
type Access struct {
	Tokens     []Token      `yaml:"tokens" secret:"true" help:"Who may call the API: name, scopes (read, submit, operate, admin) and token, or token_env, which names the environment variable of the token. A token may be given as its hash, and expires is the time at which it ends; troupe token new prints an entry. Instead of a token, certificate names a client's certificate, as in dns:ci.example (see tls.client_ca_file). In the environment: name:scope+scope:token, joined by commas. None: only this machine may call, with all scopes."`
	TokensFile string       `yaml:"tokens_file" help:"YAML file with a list of more tokens, as below tokens but without token_env. It is read again within a second when it has changed."`
	TLS        api.TLSFiles `yaml:"tls"`
	HTTP       api.HTTP     `yaml:"http"`
	Console    api.Console  `yaml:"console"`
}

// Token is one bearer token of the API.
type Token struct {
	Name   string   `yaml:"name"`
	Scopes []string `yaml:"scopes"`
	// Secret is the token itself, or its hash; TokenEnv names the environment variable that holds it instead.
	Secret   string `yaml:"token"`
	TokenEnv string `yaml:"token_env"`
	Expires  string `yaml:"expires"` // RFC 3339; empty: never
	// Certificate is a name of the client's certificate that stands for the token.
	Certificate string `yaml:"certificate"`
}

// Node names the node.
type Node struct {
	Name         string        `yaml:"name" flag:"name" help:"The node's name, with which its workers' ids begin. Empty: the host's name."`
	BeatInterval time.Duration `yaml:"beat_interval" range:"0.05..60" unit:"s" help:"How often a node of the full mode renews its lease."`
	Lease        time.Duration `yaml:"lease" range:"0.2..600" unit:"s" help:"How long a node counts as alive after its last beat. After it other nodes take its work. At least three beats, and the same on all nodes."`

	Peers peers.Settings
}

// Log says what is logged, and how.
type Log struct {
	Level  string `yaml:"level" flag:"log-level" help:"error, warn, info, debug or trace."`
	Format string `yaml:"format" flag:"log-format" help:"human, json, or auto: human on a terminal, json otherwise."`
}

// Store is where executions are kept.
type Store struct {
	URL         string        `yaml:"url" secret:"url" flag:"store" help:"postgres:// address of the store (Postgres 15 or newer) that nodes share. Empty: the embedded one, troupe.db in the data folder."`
	OutageGrace time.Duration `yaml:"outage_grace" range:"1..2592000" unit:"s" help:"How long running work goes on while the store is away for every node. After it the node stops its work."`
	Events      string        `yaml:"events" help:"changes: only unusual changes of an execution, such as a rescue; all: every change."`
}

// Broker carries work to the workers.
type Broker struct {
	RabbitMQ RabbitMQ `yaml:"rabbitmq"`
}

// RabbitMQ is the broker of the full mode. Its times and dead letters hold for the embedded broker too.
type RabbitMQ struct {
	URL            string         `yaml:"url" secret:"url" flag:"broker" help:"amqp:// or amqps:// address of the broker (RabbitMQ 3.10 or newer), with its virtual host as the path; needs store.url. Empty: nodes that share a store hand work to each other directly."`
	TLS            node.BrokerTLS `yaml:"tls"`
	Prefix         string         `yaml:"prefix" help:"Beginning of every queue's and exchange's name."`
	QueueType      string         `yaml:"queue_type" help:"quorum or classic, of every queue. Quorum queues lose no dead letter when the broker crashes."`
	WorkerQueueTTL time.Duration  `yaml:"worker_queue_ttl_ms" range:"0.05..86400" unit:"ms" help:"How long a message may wait in a worker's queue before it dead-letters."`
	Notices        bool           `yaml:"notices" help:"Whether notices of outcomes are sent to the topic exchange PREFIX.executions. An action with notify: false sends none."`
	DeadLetter     DeadLetter     `yaml:"dead_letter"`
}

// DeadLetter says what becomes of messages that were not taken in time.
type DeadLetter struct {
	Enabled  bool          `yaml:"enabled" help:"Whether expired messages are kept and handled."`
	Exchange string        `yaml:"exchange" help:"Name of the dead-letter exchange; its queue has that name with .queue added. If only the prefix is set: the prefix with .dlx."`
	TTL      time.Duration `yaml:"ttl_ms" range:"1..2592000" unit:"ms" help:"How long the dead-letter queue keeps a message that no node takes."`
}

// Pool holds for every pool.
type Pool struct {
	Workers Workers // a key for each runtime
	Restart restart.Policy
}

// Runtime says which programs run workers.
type Runtime struct {
	Interpreters Interpreters // a key for each runtime that has one
	EnvPass      []string     `yaml:"env_pass" help:"Environment variables that workers inherit. They get no others."`
}

// Retry is what is retried and the back-off between retries, where an action or its pack says nothing else.
type Retry struct {
	Enabled bool `yaml:"enabled" help:"Whether failed executions are retried at all."`

	Unclassified string `yaml:"unclassified" help:"What to do with a failure that no rule names, such as an exit status or an exception, if retries are left."`

	Shape      string        `yaml:"backoff_shape" help:"How the delay grows from retry to retry. decorrelated draws it between the base and three times the previous delay."`
	Base       time.Duration `yaml:"base_backoff_secs" range:"0.001..86400" unit:"s" help:"Delay before the first retry."`
	Max        time.Duration `yaml:"max_backoff_secs" range:"0.001..2592000" unit:"s" help:"Longest delay, jitter included."`
	Multiplier float64       `yaml:"backoff_multiplier" range:"1..100" help:"Growth of the delay from retry to retry of shape exponential."`
	Jitter     float64       `yaml:"jitter_factor" range:"0..1" help:"Random spread of the delay, as a share of it, 0 to 1."`
	MaxRetries int           `yaml:"max_retries" range:"0..1000" help:"Retries of actions that set none. Does not allow a repetition after worker_lost."`
}

// Shutdown is what the platform grants.
type Shutdown struct {
	PlatformGrace time.Duration `yaml:"platform_grace" range:"0..86400" unit:"s" help:"How long the platform waits between SIGTERM and SIGKILL (systemd TimeoutStopSec, terminationGracePeriodSeconds). A longer drain is refused. 0: not known."`
}

// Debug is for those who look inside.
type Debug struct {
	PprofListen string `yaml:"pprof_listen" flag:"pprof-listen" help:"Loopback address of the profiler (net/http/pprof). Empty: off."`
}
