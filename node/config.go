package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/runtime"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/tracing"
)

// Config is everything a node is told. Zero means the default in brackets.
type Config struct {
	Name   string // of the node [the host's name]
	Data   string // folder of the store, the SDKs and the built-in packs; required
	Listen string // address of the HTTP API; empty: none
	// HealthListen is an address that answers /healthz and /readyz alone, to anybody; empty: none but the API.
	HealthListen string
	// HealthMetrics has that address answer /metrics too, to anybody.
	HealthMetrics bool
	Packs         []string
	// Handlers are the go actions' handlers, by entrypoint, beside the built-in ones.
	Handlers map[string]messages.Handler
	// Actions are the go actions that no pack declares, each with a handler of its name.
	Actions []messages.Action
	// NoBuiltins leaves the built-in packs out.
	NoBuiltins bool
	// NoDemo leaves the built-in pack demo out.
	NoDemo bool
	Tokens []api.Token
	// TokensFile holds more tokens, and may change while the node runs; without a path there is none.
	TokensFile api.TokensFile
	TLS        api.TLSFiles // of the API [none: it is served in clear]
	Console    api.Console  // what browsers may do with the node's page [full]
	BasePath   string       // the path below which a proxy shows the node, as in /troupe [none]
	Logger     hclog.Logger
	Version    string
	// Settings are what the API shows of this configuration: every key as the program has read it, without secrets.
	Settings []api.Setting

	// Runtimes are those that packs may name [all of Troupe's]. A program that adds one lists it here.
	Runtimes runtime.Set
	// Workers is how many workers the default pool of each runtime has [the runtime's].
	Workers map[messages.Runtime]int
	// Interpreters are the programs that run the code of runtimes [the runtime's].
	Interpreters map[messages.Runtime]string
	EnvPass      []string
	// ForgetEnv, where set, takes variables out of this process's environment as /proc shows it, once their values are read.
	ForgetEnv func(names []string) error
	variables *variables // those that this process's incarnations have taken out of it
	// EventsAll stores an event for every change of an execution.
	EventsAll bool

	// StoreURL is the store that nodes share, postgres://; empty: the embedded one in the data folder. BrokerURL is the broker server
	// that they share, amqp:// or amqps://; it needs a StoreURL. Empty: each node keeps the queues of its workers itself, and nodes
	// that share a store hand work to each other directly.
	StoreURL, BrokerURL string
	BrokerTLS           BrokerTLS
	// OpenStore and OpenBroker, where set, are called instead: for adapters that a program brings along. ErrUnavailable of
	// their packages means that the server is away, and the node waits for it; any other error ends the start.
	OpenStore  func(context.Context) (store.Store, error)
	OpenBroker func(context.Context) (broker.Broker, error)

	// Tracing says whether and where spans of executions go [nowhere].
	Tracing tracing.Settings

	Broker broker.Settings
	// NoticesOff leaves the ends of executions untold on the executions exchange.
	NoticesOff bool
	// Notices tells them with the embedded broker too, where only this program can listen; with another broker they are
	// told unless NoticesOff.
	Notices bool

	// Lease is how long a node of the full mode counts as alive after a beat [4 s]; at least three of BeatEvery [1 s].
	Lease, BeatEvery time.Duration
	// OutageGrace is how long running work goes on while the store is away for every node [10 min].
	OutageGrace time.Duration
	// Peers is where the node's peers reach it, in the full mode [a free port of 127.0.0.1, for those of this machine; with
	// OpenStore, nowhere]. Without it a node that loses the store cannot ask whether the others have lost it too, and goes on for
	// OutageGrace.
	Peers peers.Settings

	// Webhooks says who is told of outcomes by HTTP, and which addresses may be called for it.
	Webhooks Webhooks

	// The parts that the command line's configuration has too. Their defaults stand with them.
	Dispatching
	Executor
	Worker
	Health
	Limits
	Retention

	Restart       restart.Policy
	Retry         messages.RetryPolicy
	RetryRules    messages.RetryRules // of actions that have none of their own
	RetryDisabled bool
	MaxRetries    int // of actions that set none

	// SweepInterval is how often rows past one of their deadlines are looked for [2 s].
	SweepInterval time.Duration
	// Transitions, where set, is told of every transition of this node's workers, in the workers' own goroutines.
	Transitions func(pool string, e lifecycle.Entry)
	// Fenced, where set, is told once that this incarnation has to be given up, and why; the caller stops the node then, and
	// may start another. Nil: Fatal is told. A Keeper does all of that.
	Fenced func(why string)
	// Unrecorded leaves out the journal, the counts by minute and the keyframes. A benchmark sets it, to measure what they cost.
	Unrecorded bool
	// WrapStore and WrapBroker, where set, are put around the adapters: faults are injected there.
	WrapStore  func(store.Store) store.Store
	WrapBroker func(broker.Broker) broker.Broker
	// Drain, where set, is called when somebody drains the node over its API or another node's; the caller stops the node
	// then, in order. It must not wait. Nil: this process gets a SIGTERM.
	Drain func()
	// Fatal is told of an error that the node cannot live with; the caller stops the node then.
	Fatal func(error)
}

// BrokerTLS is how an amqps:// connection is secured; each field may be empty.
type BrokerTLS struct {
	CAFile     string `yaml:"ca_file" help:"PEM file of the certificate authorities that the broker's certificate is checked with. Empty: the system's."`
	CertFile   string `yaml:"cert_file" help:"PEM file of the node's own certificate, if the broker asks for one."`
	KeyFile    string `yaml:"key_file" help:"PEM file of the key of cert_file."`
	ServerName string `yaml:"server_name" help:"Name that the broker's certificate must have. Empty: the host of the address."`
}

func orElse[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

func (c Config) withDefaults() Config {
	if host, err := os.Hostname(); err == nil {
		orElse(&c.Name, safeName(host))
	}
	orElse(&c.Name, "node")
	if c.Runtimes == nil {
		c.Runtimes = runtime.All()
	}
	c.Interpreters = c.Runtimes.Interpreters(c.Interpreters)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	c.Logger = withUnits(c.Logger)
	if c.StoreURL != "" {
		c.Peers = c.Peers.OrLoopback()
	}
	if c.variables == nil {
		c.variables = &variables{forget: c.ForgetEnv}
	}
	c.fill(Defaults())
	c.Webhooks = c.Webhooks.withDefaults()
	return c
}

// fill gives the fields that are zero, also those of the parts, the values of another configuration.
func (c *Config) fill(from Config) { fillZero(reflect.ValueOf(c).Elem(), reflect.ValueOf(from)) }

func fillZero(to, otherwise reflect.Value) {
	for i := range to.NumField() {
		switch field := to.Field(i); {
		case to.Type().Field(i).Anonymous:
			fillZero(field, otherwise.Field(i))
		case field.IsZero():
			field.Set(otherwise.Field(i))
		}
	}
}

// validate names everything that is wrong at once.
func (c *Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Data == "" {
		bad("data: no folder is given; say where the node keeps its store")
	}
	if strings.ContainsAny(c.Name, "/\x00 \n") {
		bad("name: %q may not hold slashes, blanks or control characters", c.Name)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"claim_timeout", c.ClaimTimeout}, {"default_timeout", c.DefaultTimeout}, {"heartbeat_interval", c.HeartbeatInterval},
		{"init_timeout", c.InitTimeout}, {"shutdown_timeout", c.ShutdownTimeout},
	} {
		if d.value <= 0 {
			bad("%s: must be positive, got %s", d.name, d.value)
		}
	}
	ttl := c.Broker.WorkerTTL
	orElse(&ttl, broker.Defaults().WorkerTTL)
	if c.ScheduledTimeout < ttl+10*time.Second {
		bad("scheduled_timeout: must exceed the worker queues' TTL of %s by at least 10 s, got %s", ttl, c.ScheduledTimeout)
	}
	if c.StoreURL == "" && c.BrokerURL != "" {
		bad("servers: nodes that share a broker need one store: give the address of a store too (postgres://), or none of a broker")
	}
	if err := api.CheckBasePath(c.BasePath); err != nil {
		bad("base_path: %s, got %q", err, c.BasePath)
	}
	if c.Lease < 3*c.BeatEvery {
		bad("lease: must be at least three beats (%s each), got %s", c.BeatEvery, c.Lease)
	}
	if c.Peers.On() && !c.full() {
		bad("peers_listen: a node on the embedded store has no peers: give it a store, or leave peers_listen empty or off")
	}
	for _, p := range c.Dispatching.Problems(c.server()) {
		bad("%s: %s", p.Key, p.Text)
	}
	for _, p := range c.Webhooks.Problems() {
		bad("%s: %s", p.Key, p.Text)
	}
	if err := c.Runtimes.Check(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Tracing.Check(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Peers.Check(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// safeName makes a host's name fit for worker ids.
func safeName(host string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r <= ' ' || r == 0x7f {
			return '-'
		}
		return r
	}, host)
}

// environment is what every worker process inherits: the allowed variables that are set, sorted.
func (c *Config) environment() []string {
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}
	for _, name := range c.EnvPass {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	return flatten(env)
}

func flatten(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// recorderLanes is how many transactions of changes may be under way at once: a server works on one while the node
// handles the other's answers; the embedded store has one writer.
func (c *Config) recorderLanes() int {
	if c.full() {
		return 2
	}
	return 1
}

// full reports whether the node shares its store with others.
func (c *Config) full() bool { return c.StoreURL != "" || c.OpenStore != nil }

// thresholds are the borders between the grades on this node.
func (c *Config) thresholds() health.Thresholds {
	t := c.Thresholds
	t.Heartbeat, t.Off = health.Limit(c.HeartbeatInterval, c.StalenessMultiplier), c.HealthDisabled
	return t
}

func (c *Config) storePath() string  { return filepath.Join(c.Data, "troupe.db") }
func (c *Config) ledgerPath() string { return filepath.Join(c.Data, "processes.ledger") }
