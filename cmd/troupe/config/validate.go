package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/api"
)

// ttlMargin is how far scheduled_timeout must lie above the worker queues' TTL: a message that expires is handled by
// the dead-letter handler, and the safety net behind it must not be faster.
const ttlMargin = 10 * time.Second

// beatsPerLease is how many beats a lease holds at least.
const beatsPerLease = 3

// checker collects what is wrong with the values, each with its key's value and source.
type checker struct {
	keys     map[string]*Key
	problems Problems
}

// bad notes a problem of a key: what must hold, and so what to do.
func (c *checker) bad(path, format string, args ...any) {
	k := c.keys[path]
	if k == nil {
		panic("config: no key " + path)
	}
	c.problems = append(c.problems, fmt.Sprintf("%s: %s, is %s (%s)", path, fmt.Sprintf(format, args...), shown(k), k.Source))
}

func shown(k *Key) string {
	if v := k.Value(); v != "" {
		return v
	}
	return "empty"
}

// validate checks every rule; the problems come in the order of the keys' groups.
func (l *Loaded) validate() Problems {
	c := &checker{keys: l.byPath()}
	c.ranges(l)
	c.api(l)
	c.words(l)
	c.addresses(l)
	c.peers(l)
	c.times(l)
	c.grades(l)
	c.tracing(l)
	c.passed(l)
	for _, p := range l.Dispatching.Problems(l.Broker.RabbitMQ.URL != "") {
		c.bad(p.Key, "%s", p.Text)
	}
	for _, p := range l.Webhooks.Problems() {
		c.bad(p.Key, "%s", p.Text)
	}
	return c.problems
}

func (c *checker) api(l *Loaded) {
	host, port, err := net.SplitHostPort(l.Listen)
	if err != nil || port == "" {
		c.bad("listen", "must be host:port, as in 127.0.0.1:7070")
	} else if !loopbackHost(host) && len(l.Tokens) == 0 && l.TokensFile == "" {
		c.bad("listen", "other machines could call this node; configure tokens, or listen on 127.0.0.1")
	}
	if h := l.HealthListen; h != "" {
		if _, port, err := net.SplitHostPort(h); err != nil || port == "" {
			c.bad("health_listen", "must be host:port, as in 0.0.0.0:7072")
		} else if h == l.Listen {
			c.bad("health_listen", "is the address of the API (listen); give it a port of its own, or leave it empty")
		}
	}
	if l.HealthMetrics && l.HealthListen == "" {
		c.bad("health_metrics", "needs a port to serve them at: set health_listen")
	}
	if p := l.Debug.PprofListen; p != "" {
		if host, _, err := net.SplitHostPort(p); err != nil || !loopbackHost(host) {
			c.bad("debug.pprof_listen", "must be a loopback address, as in 127.0.0.1:6060: profiles show memory")
		}
	}
	if err := api.CheckBasePath(l.HTTP.BasePath); err != nil {
		c.bad("http.base_path", "%s", err)
	}
	c.tokens(l)
	c.apiTLS(l)
}

// apiTLS checks that the API's TLS files fit together. The node reads them at its start.
func (c *checker) apiTLS(l *Loaded) {
	t := l.TLS
	if (t.CertFile == "") != (t.KeyFile == "") {
		c.bad("tls.cert_file", "must be given together with tls.key_file")
	}
	if t.ClientCAFile != "" && t.CertFile == "" {
		c.bad("tls.client_ca_file", "needs tls.cert_file and tls.key_file: clients show certificates over TLS alone")
	}
}

func loopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// tokens checks the list and the file, and that no entry of one is in the other.
func (c *checker) tokens(l *Loaded) {
	all, problems := APITokens(l.Tokens)
	problems = append(problems, api.CheckTokens(all)...)
	for _, p := range problems {
		c.bad("tokens", "%s", p)
	}
	for _, p := range api.CheckCertificates(all, l.TLS, "tokens") {
		c.bad("tls.client_ca_file", "%s", p)
	}
	if l.TokensFile == "" {
		return
	}
	file, err := ReadTokens(l.TokensFile)
	if err != nil {
		c.bad("tokens_file", "%s", err)
		return
	}
	for _, p := range api.CheckCertificates(file, l.TLS, l.TokensFile) {
		c.bad("tokens_file", "%s", p)
	}
	if len(problems) == 0 {
		for _, p := range api.CheckTokens(append(all, file...)) {
			c.bad("tokens_file", "together with tokens: %s", p)
		}
	}
}

// words checks the keys that take one word of a few.
func (c *checker) words(l *Loaded) {
	for _, w := range []struct {
		path, value string
		allowed     []string
	}{
		{"log.level", l.Log.Level, []string{"error", "warn", "info", "debug", "trace"}},
		{"log.format", l.Log.Format, []string{"auto", "human", "json"}},
		{"console.mode", l.Console.Mode, api.ConsoleModes()},
		{"console.payloads", l.Console.Payloads, api.ConsolePayloads()},
		{"store.events", l.Store.Events, []string{"changes", "all"}},
		{"retry.unclassified", l.Retry.Unclassified, []string{"retry", "final"}},
		{"retry.backoff_shape", l.Retry.Shape, []string{"fixed", "linear", "exponential", "fibonacci", "decorrelated"}},
		{"message_queue.rabbitmq.queue_type", l.Broker.RabbitMQ.QueueType, []string{"classic", "quorum"}},
	} {
		if !slices.Contains(w.allowed, w.value) {
			c.bad(w.path, "must be one of %s", strings.Join(w.allowed, ", "))
		}
	}
	if strings.ContainsAny(l.Node.Name, "/ \t\n\x00") || len(l.Node.Name) > 128 {
		c.bad("node.name", "must be at most 128 characters without slash or space")
	}
	if strings.ContainsRune(l.Data, 0) {
		c.bad("data", "must be a path")
	}
}

func (c *checker) addresses(l *Loaded) {
	for _, a := range []struct {
		path, value string
		schemes     []string
	}{
		{"store.url", l.Store.URL, []string{"postgres", "postgresql"}},
		{"message_queue.rabbitmq.url", l.Broker.RabbitMQ.URL, []string{"amqp", "amqps"}},
	} {
		if a.value == "" {
			continue
		}
		switch u, err := url.Parse(a.value); {
		case rawPassword(a.value, a.schemes, u):
			c.bad(a.path, "has a user or password in which a character is not percent-encoded: write %%2F for /, %%23 for #, %%3F for ?, %%40 for @, %%25 for %%")
		case err != nil || !slices.Contains(a.schemes, u.Scheme) || u.Host == "":
			c.bad(a.path, "must be a %s:// address, or empty for the embedded one", a.schemes[0])
		}
	}
	c.pair(l)
	c.tls(l)
}

// rawPassword reports whether an address has characters before its last @ that end or break its user and password. parsed is nil for one
// that cannot be read.
func rawPassword(text string, schemes []string, parsed *url.URL) bool {
	scheme, rest, found := strings.Cut(text, "://")
	at := strings.LastIndexByte(rest, '@')
	if !found || !slices.Contains(schemes, scheme) || at < 0 {
		return false
	}
	end := strings.IndexAny(rest, "/?#")
	cut := end >= 0 && end < at && (!strings.Contains(rest[:end], "@") || parsed != nil && parsed.Fragment != "")
	return cut || parsed == nil
}

// pair refuses a broker without a store. Nodes that share a broker take each other's dead letters, which mean nothing to another node's
// embedded store.
func (c *checker) pair(l *Loaded) {
	if l.Store.URL == "" && l.Broker.RabbitMQ.URL != "" {
		c.bad("store.url", "must be given together with message_queue.rabbitmq.url: nodes that share a broker share its dead letters, "+
			"so they need one store; give --store postgres://…, or leave the broker's address empty too")
	}
}

// tls checks that the broker's TLS keys fit together and are of use.
func (c *checker) tls(l *Loaded) {
	t, secured := l.Broker.RabbitMQ.TLS, strings.HasPrefix(l.Broker.RabbitMQ.URL, "amqps://")
	const group = "message_queue.rabbitmq.tls."
	for _, k := range []struct{ path, value string }{
		{"ca_file", t.CAFile}, {"cert_file", t.CertFile}, {"key_file", t.KeyFile}, {"server_name", t.ServerName},
	} {
		if k.value != "" && !secured {
			c.bad(group+k.path, "needs an amqps:// address in message_queue.rabbitmq.url")
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		c.bad(group+"cert_file", "must be given together with key_file")
	}
}

// peers checks where the node's peers reach it.
func (c *checker) peers(l *Loaded) {
	s := l.Node.Peers
	if s.On() && l.Store.URL == "" {
		c.bad("node.peers_listen", "needs store.url: a node on the embedded store is alone; leave it empty")
	}
	for _, p := range s.Problems() {
		c.bad("node."+p.Setting, "%s", p.Text)
	}
}

// times checks the durations against each other.
func (c *checker) times(l *Loaded) {
	ttl := l.Broker.RabbitMQ.WorkerQueueTTL
	if l.Executor.ScheduledTimeout < ttl+ttlMargin {
		c.bad("executor.scheduled_timeout", "must be at least 10 s above message_queue.rabbitmq.worker_queue_ttl_ms, so %s or more",
			formatDuration(ttl+ttlMargin, "s"))
	}
	if l.Executor.ClaimTimeout >= ttl {
		c.bad("executor.claim_timeout", "must be below message_queue.rabbitmq.worker_queue_ttl_ms (%s ms)", formatDuration(ttl, "ms"))
	}
	if l.Retry.Max < l.Retry.Base {
		c.bad("retry.max_backoff_secs", "must not be below retry.base_backoff_secs")
	}
	if l.Pool.Restart.BackoffMax < l.Pool.Restart.BackoffMin {
		c.bad("pool.backoff_max", "must not be below pool.backoff_base")
	}
	if l.Node.Lease < beatsPerLease*l.Node.BeatInterval {
		c.bad("node.lease", "must be at least %d times node.beat_interval (%s s), or one late beat costs the node its work",
			beatsPerLease, formatDuration(l.Node.BeatInterval, "s"))
	}
	if grace := l.Shutdown.PlatformGrace; grace > 0 && l.DrainBudget() > grace {
		c.bad("shutdown.platform_grace", "the drain takes up to %s s (worker.shutdown_timeout + cancel_grace + term_grace), "+
			"and the platform would kill the node before; shorten worker.shutdown_timeout or give the platform more",
			formatDuration(l.DrainBudget(), "s"))
	}
}

// DrainBudget is how long a stop may take: the work's own time, then the stop ladder.
func (c *Config) DrainBudget() time.Duration {
	return c.Worker.ShutdownTimeout + c.Worker.Graces.Cancel + c.Worker.Graces.Terminate
}

// grades checks that each degraded threshold lies below its unhealthy one.
func (c *checker) grades(l *Loaded) {
	h := l.Health.Thresholds
	for _, g := range []struct {
		path, below         string
		degraded, unhealthy float64
	}{
		{"health.degraded_threshold", "unhealthy_threshold", float64(h.FailuresDegraded), float64(h.FailuresUnhealthy)},
		{"health.queue_depth_degraded", "queue_depth_unhealthy", float64(h.QueueDepthDegraded), float64(h.QueueDepthUnhealthy)},
		{"health.failure_rate_degraded", "failure_rate_unhealthy", h.FailureRateDegraded, h.FailureRateUnhealthy},
	} {
		if g.degraded >= g.unhealthy {
			c.bad(g.path, "must be below health.%s", g.below)
		}
	}
}
