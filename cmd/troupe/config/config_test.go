package config

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/node"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

var home = []string{"HOME=/home/u"}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "troupe.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func loaded(t *testing.T, s Sources) *Loaded {
	t.Helper()
	l, err := Load(s)
	require.NoError(t, err)
	return l
}

func (l *Loaded) key(t *testing.T, path string) *Key {
	t.Helper()
	k := l.byPath()[path]
	require.NotNil(t, k, path)
	return k
}

func TestTheReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "docs", "configuration.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(Reference()), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, Reference(), string(text), "run go test ./cmd/troupe/config -update")
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	l := loaded(t, Sources{Environ: home})
	require.Equal(t, "127.0.0.1:7070", l.Listen)
	require.Equal(t, "/home/u/.local/state/troupe", l.Data)
	require.NotEmpty(t, l.Node.Name)
	require.Equal(t, 330*time.Second, l.Executor.ScheduledTimeout)
	require.Equal(t, 5*time.Minute, l.Broker.RabbitMQ.WorkerQueueTTL)
	require.Equal(t, 250*time.Millisecond, l.Pool.Restart.BackoffMin)
	require.Equal(t, 16<<20, l.Limits.FrameMax)
	for _, k := range l.Keys {
		require.Equal(t, "default", k.Source, k.Path)
		require.NotEmpty(t, k.Help, k.Path)
	}
	require.Equal(t, "/x/troupe", loaded(t, Sources{Environ: []string{"XDG_STATE_HOME=/x", "HOME=/h"}}).Data)
}

func TestEverySpan(t *testing.T) {
	t.Parallel()
	for _, k := range Defaults() {
		_, isNumber := k.number()
		require.Equal(t, isNumber, k.span != nil, k.Path)
	}
}

func TestFlagOverEnvironmentOverFileOverDefault(t *testing.T) {
	t.Parallel()
	path := file(t, "listen: 127.0.0.1:1\nnode: {name: a}\nlog:\n  level: debug\npacks: [/p]\n")
	s := Sources{File: path, Environ: append(home, "TROUPE_LISTEN=127.0.0.1:2", "TROUPE_NODE_NAME=b", "TROUPE_PACKS=/x:/y,/z"),
		Flags: map[string][]string{"listen": {"127.0.0.1:3"}}}
	l := loaded(t, s)
	require.Equal(t, "127.0.0.1:3", l.Listen)
	require.Equal(t, "flag --listen", l.key(t, "listen").Source)
	require.Equal(t, "b", l.Node.Name)
	require.Equal(t, "env TROUPE_NODE_NAME", l.key(t, "node.name").Source)
	require.Equal(t, "debug", l.Log.Level)
	require.Equal(t, "file "+path+":4", l.key(t, "log.level").Source)
	require.Equal(t, []string{"/x", "/y", "/z"}, l.Packs)
	require.Equal(t, "default", l.key(t, "data").Source)
}

func TestUnits(t *testing.T) {
	t.Parallel()
	l := loaded(t, Sources{File: file(t, `
executor: {default_timeout: 1.5, claim_timeout: 20s}
message_queue: {rabbitmq: {worker_queue_ttl_ms: 60000, dead_letter: {ttl_ms: 2h}}}
limits: {output: 64KiB, frame: 1048576}
health: {failure_rate_degraded: 0.25, enabled: false}
`), Environ: home})
	require.Equal(t, 1500*time.Millisecond, l.Executor.DefaultTimeout)
	require.Equal(t, 20*time.Second, l.Executor.ClaimTimeout)
	require.Equal(t, time.Minute, l.Broker.RabbitMQ.WorkerQueueTTL)
	require.Equal(t, 2*time.Hour, l.Broker.RabbitMQ.DeadLetter.TTL)
	require.Equal(t, 64<<10, l.Limits.OutputMax)
	require.Equal(t, 1<<20, l.Limits.FrameMax)
	require.True(t, l.Health.HealthDisabled)
	require.InDelta(t, 0.25, l.Health.Thresholds.FailureRateDegraded, 0)
	require.Equal(t, "1.5", l.key(t, "executor.default_timeout").Value())
}

// Every problem of every source is told at once, with its key, value, source, and what must hold.
func TestEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	path := file(t, `listne: 127.0.0.1:1
executor:
  scheduled_timeout: 305
  claim_timeout: soon
  claim_timeout: 3
  nothing: 1
retry: 7
log: {level: loud}
worker: {heartbeat_interval: [1]}
`)
	_, err := Load(Sources{File: path, Environ: append(home, "TROUPE_HEALTH_DEGRADED_THRESHOLD=20", "TROUPE_RETRY_JITTER_FACTOR=x"),
		Flags: map[string][]string{"listen": {"0.0.0.0:7070"}}})
	require.Error(t, err)
	for _, want := range []string{
		path + ":1: unknown key listne; did you mean listen?",
		"executor.scheduled_timeout: must be at least 10 s above message_queue.rabbitmq.worker_queue_ttl_ms, so 310 or more, is 305 (file " + path + ":3)",
		`executor.claim_timeout: "soon" is not valid: want a number of seconds, or a duration such as 90s or 5m (file ` + path + ":4)",
		path + ":5: executor.claim_timeout is given a second time; the first is in line 4",
		path + ":6: unknown key executor.nothing",
		path + ":7: retry must hold keys",
		"log.level: must be one of error, warn, info, debug, trace, is loud",
		path + ":9: worker.heartbeat_interval must be one value (seconds)",
		"health.degraded_threshold: must be below health.unhealthy_threshold, is 20 (env TROUPE_HEALTH_DEGRADED_THRESHOLD)",
		`retry.jitter_factor: "x" is not valid: want a number (env TROUPE_RETRY_JITTER_FACTOR)`,
		"listen: other machines could call this node; configure tokens, or listen on 127.0.0.1, is 0.0.0.0:7070 (flag --listen)",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestValuesAreChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"listen: nonsense":                                     "must be host:port",
		"listen: ':7070'":                                      "other machines could call this node",
		"debug: {pprof_listen: '0.0.0.0:6060'}":                "must be a loopback address",
		"http: {base_path: /api}":                              "http.base_path: must not begin with a path of the node's own",
		"http: {base_path: /troupe/}":                          "must not end with a slash",
		"store: {url: 'postgres://u:pa/ss@db/troupe'}":         "percent-encoded: write %2F for /",
		"store: {url: 'postgres://u:p@ss#word@db/troupe'}":     "percent-encoded",
		"store: {url: 'postgres://u:p%zz@db/troupe'}":          "percent-encoded",
		"store: {url: mysql://x}":                              "must be a postgres:// address",
		"message_queue: {rabbitmq: {url: 'amqp://'}}":          "must be a amqp:// address",
		"message_queue: {rabbitmq: {url: 'amqp://h/'}}":        "store.url: must be given together with message_queue.rabbitmq.url",
		"message_queue: {rabbitmq: {tls: {ca_file: a}}}":       "message_queue.rabbitmq.tls.ca_file: needs an amqps:// address",
		"message_queue: {rabbitmq: {tls: {cert_file: a}}}":     "must be given together with key_file",
		"node: {lease: 2}":                                     "node.lease: must be at least 3 times node.beat_interval (1 s)",
		"node: {peers_listen: 'on'}":                           "node.peers_listen: must be host:port, as in 10.0.0.5:7071, or off",
		"node: {peers_listen: '127.0.0.1:0'}":                  "node.peers_listen: needs store.url",
		"node: {peers_listen: '0.0.0.0:7071'}":                 "node.peers_listen: other machines could speak for a node",
		"node: {peers_advertise: 'h:1'}":                       "node.peers_advertise: needs node.peers_listen",
		"shutdown: {platform_grace: 39}":                       "the drain takes up to 40 s",
		"worker: {shutdown_timeout: -1}":                       "worker.shutdown_timeout: must be 0.1 to 86400, is -1",
		"limits: {frame: 1KiB}":                                "limits.frame: must be 64KiB to 256MiB, is 1KiB",
		"limits: {frame: lots}":                                "want a size such as 16MiB",
		"health: {failure_rate_degraded: 0.8}":                 "must be below health.failure_rate_unhealthy",
		"retry: {max_backoff_secs: 0.5}":                       "must not be below retry.base_backoff_secs",
		"executor: {claim_timeout: 300}":                       "must be below message_queue",
		"node: {name: a/b}":                                    "without slash or space",
		"tokens: [{name: a, scopes: [all], token: x}]":         "unknown scope \"all\"",
		"tokens: [{name: a, token: 0123456789abcdef}]":         "has no scopes",
		"tokens: [{name: a, scope: [read], token: x}]":         "must have the keys name, scopes",
		"tokens: [{name: a, scopes: [read], token: x}]":        "at least 16 characters",
		"dispatch: both":                                       `dispatch: must be direct, broker or empty, got "both"`,
		"dispatch: broker":                                     "dispatch: broker needs a RabbitMQ: set message_queue.rabbitmq.url, or use direct",
		"pools: {a.b: {dispatch: broker}}":                     "pools: a.b.dispatch: broker needs a RabbitMQ",
		"pools: {a.b: {dispatch: x}}":                          `pools: a.b.dispatch: must be direct, broker or empty, got "x"`,
		"pools: {a b: {dispatch: direct}}":                     `pools: "a b" is not the name of a pool`,
		"pools: {a.b: {workers: 3}}":                           "pools.a.b must have the key dispatch, and no other",
		"pools: {a.b: direct}":                                 "pools.a.b must have the key dispatch, and no other",
		"pools: {a: {dispatch: direct}, a: {}}":                "pools.a is given a second time; the first is in line 1",
		"pools: direct":                                        "pools must be a mapping (settings by pool)",
		"tokens: nonsense":                                     "must be a list of tokens",
		"tokens: [{name: a, scopes: [read], token_env: NONE}]": "the environment variable NONE is empty",
		"packs: [[a]]":                                         "an entry must be a text",
		"a: *b":                                                "unknown anchor",
		"a: 1\n---\nb: 2":                                      "more than one YAML document",
		"{":                                                    "did not find expected",
		"[1]":                                                  "the file must hold keys",
		"executor: &x {}\nretry: *x":                           "retry must hold keys",
	} {
		_, err := Load(Sources{File: file(t, text), Environ: home})
		require.ErrorContains(t, err, want, text)
	}
	_, err := Load(Sources{File: filepath.Join(t.TempDir(), "none.yaml"), Environ: home})
	require.ErrorContains(t, err, "no such file")
	_, err = Load(Sources{File: t.TempDir(), Environ: home})
	require.ErrorContains(t, err, "is no regular file")
	_, err = Load(Sources{})
	require.ErrorContains(t, err, "name a folder with --data")
	require.NotNil(t, loaded(t, Sources{File: file(t, "# nothing\n"), Environ: home}))
	require.NotNil(t, loaded(t, Sources{File: file(t, "worker: {shutdown_timeout: 35}\nshutdown: {platform_grace: 45}\nlog:\n"), Environ: home}))
}

// How executions go to workers, for the node and for pools, from the file and from the environment.
func TestDispatch(t *testing.T) {
	t.Parallel()
	servers := append(slices.Clone(home), "TROUPE_STORE_URL=postgres://h/d", "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL=amqp://h/")
	path := file(t, "dispatch: direct\npools:\n  b.slow: {dispatch: broker}\n  a.new:\n    dispatch: direct\n")
	l := loaded(t, Sources{File: path, Environ: servers})
	require.Equal(t, "direct", l.Dispatch)
	require.Equal(t, node.PoolSettings{"b.slow": {Dispatch: "broker"}, "a.new": {Dispatch: "direct"}}, l.Pools)
	require.Equal(t, []string{"a.new:direct,b.slow:broker", "file " + path + ":3"}, []string{l.key(t, "pools").Value(), l.key(t, "pools").Source})
	l = loaded(t, Sources{File: path, Environ: append(servers, "TROUPE_DISPATCH=broker", "TROUPE_POOLS=go:direct, python:direct")})
	require.Equal(t, "broker", l.Dispatch)
	require.Equal(t, node.PoolSettings{"go": {Dispatch: "direct"}, "python": {Dispatch: "direct"}}, l.Pools)
	for text, want := range map[string]string{"go": "want NAME:direct or NAME:broker", "go:": "want NAME:direct", "go:direct,go:broker": "go stands there twice"} {
		_, err := Load(Sources{Environ: append(servers, "TROUPE_POOLS="+text)})
		require.ErrorContains(t, err, want, text)
	}
	for _, text := range []string{"dispatch: direct", "pools: {go: {dispatch: direct}}", "pools: {go: {}}", "pools: {}", "pools:"} {
		require.NotNil(t, loaded(t, Sources{File: file(t, text), Environ: home}), text)
	}
}

// The servers of the full mode, from flags as from the environment; names that follow the prefix unless they are set.
func TestTheFullMode(t *testing.T) {
	t.Parallel()
	l := loaded(t, Sources{
		Environ: append(home, "TROUPE_STORE_URL=postgres://h/other", "TROUPE_MESSAGE_QUEUE_RABBITMQ_PREFIX=blue",
			"TROUPE_MESSAGE_QUEUE_RABBITMQ_TLS_CA_FILE=/etc/ca.pem"),
		Flags: map[string][]string{"store": {"postgres://u:p@h/db"}, "broker": {"amqps://u:p@h/v"}},
	})
	require.Equal(t, "postgres://u:p@h/db", l.Store.URL)
	require.Equal(t, "postgres://u:xxxxx@h/db", l.key(t, "store.url").Value())
	require.Equal(t, "flag --store", l.key(t, "store.url").Source)
	require.Equal(t, "amqps://u:xxxxx@h/v", l.key(t, "message_queue.rabbitmq.url").Value())
	require.Equal(t, "blue.dlx", l.Broker.RabbitMQ.DeadLetter.Exchange)
	require.Equal(t, "/etc/ca.pem", l.Broker.RabbitMQ.TLS.CAFile)
	l = loaded(t, Sources{Environ: append(home, "TROUPE_MESSAGE_QUEUE_RABBITMQ_PREFIX=blue",
		"TROUPE_MESSAGE_QUEUE_RABBITMQ_DEAD_LETTER_EXCHANGE=kept")})
	require.Equal(t, "kept", l.Broker.RabbitMQ.DeadLetter.Exchange)
}

func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2-hunter2"
	l := loaded(t, Sources{
		File: file(t, "listen: 0.0.0.0:7070\nstore: {url: 'postgres://u:"+secret+"@h/db?sslpassword="+secret+"'}\n"+
			"message_queue: {rabbitmq: {url: 'amqp://u:"+secret+"@h/'}}\ntokens:\n  - {name: ci, scopes: [read, submit], token_env: CI}\n"),
		Environ: append(home, "CI="+secret),
	})
	require.Equal(t, secret, l.Tokens[0].Secret)
	for _, k := range l.Keys {
		require.NotContains(t, k.Value(), secret, k.Path)
	}
	require.Equal(t, "[ci(read+submit)]", l.key(t, "tokens").Value())

	for _, text := range []string{"tokens: [{name: a, scopes: [read], token: [" + secret + "]}]", "tokens: [" + secret + "]"} {
		_, err := Load(Sources{File: file(t, text), Environ: home})
		require.Error(t, err)
		require.NotContains(t, err.Error(), secret)
	}
	_, err := Load(Sources{Environ: append(home, "TROUPE_TOKENS="+secret)})
	require.ErrorContains(t, err, "want name:scope+scope:token")
	require.NotContains(t, err.Error(), secret)
	env := loaded(t, Sources{Environ: append(home, "TROUPE_TOKENS=ci:read+submit:"+secret+",ops:admin:a:b:c-"+secret)})
	require.Equal(t, "a:b:c-"+secret, env.Tokens[1].Secret)
}

func TestUnknownVariablesWarn(t *testing.T) {
	t.Parallel()
	l := loaded(t, Sources{Environ: append(home, "TROUPE_LISTE=x", "TROUPE_SERVER=x", "TROUPE_PORT_7070_TCP=x", "TROUPE_SERVICE_HOST=x", "OTHER=x")})
	require.Equal(t, []string{"environment variable TROUPE_LISTE names no key; did you mean TROUPE_LISTEN?"}, l.Warnings)
}

func TestDurationsReadWhatTheyWrite(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]string{"s", "ms"}).Draw(t, "unit")
		d := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "duration")).Truncate(time.Microsecond)
		got, err := parseDuration(formatDuration(d, unit), unit)
		if err != nil || (got-d).Abs() > time.Nanosecond {
			t.Fatalf("%s %s: %s, %v", d, unit, got, err)
		}
	})
}

// FuzzFile: whatever the file holds, it is read or refused, and every problem names the file or a key.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{"listen: 127.0.0.1:1", "a: [", "tokens: [{name: x}]", "x: &a [*a]", "? {a: b}\n: c", "---\n---\n", "executor: {claim_timeout: .inf}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := &Config{}
		l := &Loaded{Keys: keysOf(c)}
		for _, p := range (&fileReader{name: "f", keys: l.byPath()}).read([]byte(text)) {
			require.True(t, strings.HasPrefix(p, "f:") || strings.Contains(p, "(file f:"), p)
		}
	})
}

// off is a text here, whatever YAML makes of the word elsewhere.
func TestPeersMayBeSwitchedOff(t *testing.T) {
	t.Parallel()
	servers := []string{"HOME=/h", "TROUPE_STORE_URL=postgres://h/d", "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL=amqp://h/"}
	for text, want := range map[string]string{"off": "off", "'off'": "off", "''": "", "127.0.0.1:7071": "127.0.0.1:7071"} {
		path := filepath.Join(t.TempDir(), "troupe.yaml")
		require.NoError(t, os.WriteFile(path, []byte("node: {peers_listen: "+text+"}\n"), 0o600))
		loaded, err := Load(Sources{File: path, Environ: servers})
		require.NoError(t, err, text)
		require.Equal(t, want, loaded.Node.Peers.Listen)
		require.Equal(t, strings.Contains(text, ":"), loaded.Node.Peers.On())
	}
	_, err := Load(Sources{Environ: []string{"HOME=/h", "TROUPE_NODE_PEERS_LISTEN=off"}})
	require.NoError(t, err, "on the embedded store too")
}

// The first part of the reference has each of its keys once, and the second all others.
func TestTheReferenceHasEveryKeyOnce(t *testing.T) {
	t.Parallel()
	require.Len(t, first, 20)
	page := Reference()
	head, tuning, found := strings.Cut(page, "\n## Tuning\n")
	require.True(t, found)
	for _, k := range Defaults() {
		row := "\n| `" + k.Path + "`"
		require.Equal(t, 1, strings.Count(page, row), k.Path)
		require.Equal(t, slices.Contains(first, k.Path), strings.Contains(head, row), k.Path)
		require.NotEqual(t, strings.Contains(head, row), strings.Contains(tuning, row), k.Path)
	}
}
