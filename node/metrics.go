package node

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// metrics is what /metrics shows. Labels are closed sets (pools, states, reasons, codes), never ids.
type metrics struct {
	hook     func(pool string, e lifecycle.Entry) // of the configuration; nil: none
	registry *prometheus.Registry

	transitions, executions, timeouts, probes, restarts, takeBacks *prometheus.CounterVec
	replaced                                                       *prometheus.CounterVec
	retries, affinity, letters, stale, echoLate, spans             *prometheus.CounterVec
	inState                                                        *prometheus.SummaryVec
	runTime, latency, probeTime, backoff, echoTime                 *prometheus.HistogramVec
	group, storeTime                                               prometheus.Histogram
	nodesLost                                                      prometheus.Counter
	leaked                                                         *prometheus.GaugeVec
	live                                                           *liveCollector
	flow                                                           *flowMetrics
	bridges                                                        *bridgeMetrics

	edges sync.Map // edgeKey → edge
	ends  sync.Map // endKey → runEnd
}

type edgeKey struct {
	pool     string
	from, to lifecycle.State
	reason   lifecycle.Reason
}

type edge struct {
	count prometheus.Counter
	time  prometheus.Observer
}

type endKey struct {
	pool   string
	status messages.Status
	code   messages.Code
}

type runEnd struct {
	count   prometheus.Counter
	time    prometheus.Observer
	latency prometheus.Observer
}

// The bounds of the buckets. Each costs a sample for every pool, and some for every status too, so there are few: a scrape of a node
// with the pools that it has by default stays below 500 samples. A bound that an alert compares with is among them.
var (
	// workTimes, in seconds, are for what takes as long as work does: runs, waits and absences of workers.
	workTimes = []float64{0.01, 0.1, 1, 10, 60, 600, 3600}
	// answerTimes, in seconds, are for what has to answer soon: the store, probes and dispatch echoes.
	answerTimes = []float64{0.001, 0.005, 0.02, 0.1, 0.5, 2.5, 10}
	// counts are for what is done together.
	counts = []float64{1, 4, 16, 64, 256, 1024}
)

// sources are what the gauges are read from.
type sources struct {
	*base
	servers *watcher
	backlog *actors.Backlog
	beats   *beats
	notices *notices
}

func newMetrics(of *sources) *metrics {
	m := &metrics{hook: of.cfg.Transitions, registry: prometheus.NewRegistry()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "troupe_" + name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(buckets []float64, name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "troupe_" + name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	m.transitions = counter("worker_transitions_total", "Lifecycle transitions of workers.", "pool", "from", "to", "reason")
	m.executions = counter("executions_total", "Executions that ended, by status and error code.", "pool", "status", "code")
	m.timeouts = counter("execution_timeouts_total", "Executions that ended for a timeout, by code.", "pool", "code")
	m.probes = counter("probes_total", "Health checks of workers.", "pool", "result")
	m.restarts = counter("worker_restarts_total", "Workers started again after a failure.", "pool")
	m.replaced = counter("worker_replacements_total", "Workers that were replaced without a failure: recycled, reloaded, closed, ended by an operator.", "pool")
	m.takeBacks = counter("take_backs_total", "Placements that were taken back unstarted.", "pool", "reason")
	m.retries = counter("retries_total", "Retries that were made, by reason (a class of failures, or manual_retry) and by the error's code.", "pool", "reason", "code")
	m.affinity = counter("session_affinity_total", "Executions with a session, by result: hit, miss, opened, lost, expired. Those that fail because of the session count too.", "pool", "result")
	m.letters = counter("dead_letters_total", "Dead letters handled.", "reason", "resolution")
	m.stale = counter("stale_writes_total", "Changes that came too late and had no effect.", "change")
	m.spans = counter("trace_spans_total", "Spans of executions, by result: exported, failed (the collector did not take them), dropped (the queue was full). Only with tracing.", "result")
	m.echoLate = counter("dispatch_echo_late_total", "Dispatch echoes that were late.", "pool")
	// A state and a pool make a series, so it has a sum and a count and no buckets.
	m.inState = prometheus.NewSummaryVec(prometheus.SummaryOpts{
		Name: "troupe_worker_state_seconds", Help: "Time that workers spent in a state: sum and count.",
	}, []string{"pool", "state"})
	m.runTime = histogram(workTimes, "execution_run_seconds", "Run time of executions.", "pool", "status")
	m.latency = histogram(workTimes, "execution_scheduling_seconds", "From requested (or due) to running.", "pool")
	m.probeTime = histogram(answerTimes, "probe_seconds", "Time to the answer of a health check.", "pool")
	m.backoff = histogram(workTimes, "worker_restart_delay_seconds", "Delay before a failed worker was started again.", "pool")
	m.echoTime = histogram(answerTimes, "dispatch_echo_seconds", "Round trip of the dispatch echo.", "pool")
	m.group = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "troupe_store_batch_changes", Help: "Changes of one store transaction.", Buckets: counts,
	})
	m.storeTime = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "troupe_store_transaction_seconds", Help: "Time of one store transaction.", Buckets: answerTimes,
	})
	m.nodesLost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "troupe_nodes_lost_total", Help: "Other nodes that this one declared dead.",
	})
	m.leaked = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "troupe_leaked_handlers", Help: "Go handlers that did not return after their context ended.",
	}, []string{"pool"})
	m.live, m.flow, m.bridges = newLiveCollector(of), newFlowMetrics(m.registry), newBridgeMetrics(m.registry)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(m.inState, m.group, m.storeTime, m.leaked, m.nodesLost)
	return m
}

// open adds what is read when it is scraped. The registry reads it at once, so it is called when the system of actors is there.
func (m *metrics) open() { m.registry.MustRegister(m.live) }

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesMax})
}

func (m *metrics) transition(pool string, e lifecycle.Entry) {
	if m.hook != nil {
		m.hook(pool, e)
	}
	key := edgeKey{pool, e.From, e.To, e.Reason}
	known, ok := m.edges.Load(key)
	if !ok {
		known, _ = m.edges.LoadOrStore(key, edge{
			count: m.transitions.WithLabelValues(pool, e.From.String(), e.To.String(), e.Reason.String()),
			time:  m.inState.WithLabelValues(pool, e.From.String()),
		})
	}
	known.(edge).count.Inc()
	known.(edge).time.Observe(e.In.Seconds())
}

// codesMax bounds the error codes that are told apart: an action may invent any.
const codeOther = messages.Code("other")

// labelCode keeps Troupe's own codes and folds an action's into one.
func labelCode(err *messages.Error) messages.Code {
	if err == nil {
		return ""
	}
	if err.Code.Known() {
		return err.Code
	}
	return codeOther
}

func (m *metrics) run(pool string, e *messages.Execution, o *messages.Outcome, took time.Duration) {
	end := m.end(pool, o.Status, labelCode(o.Error))
	end.time.Observe(took.Seconds())
	m.flow.started(pool, e)
	if wait := e.StartedAt.Sub(e.Due()); wait >= 0 {
		end.latency.Observe(wait.Seconds())
	}
}

func (m *metrics) end(pool string, status messages.Status, code messages.Code) runEnd {
	key := endKey{pool, status, code}
	known, ok := m.ends.Load(key)
	if !ok {
		known, _ = m.ends.LoadOrStore(key, runEnd{
			count:   m.executions.WithLabelValues(pool, status.String(), string(code)),
			time:    m.runTime.WithLabelValues(pool, status.String()),
			latency: m.latency.WithLabelValues(pool),
		})
	}
	return known.(runEnd)
}

// timeoutCodes are those of executions that ended for a timeout.
var timeoutCodes = []messages.Code{
	messages.CodeTimeout, messages.CodeStalled, messages.CodeStartTimeout, messages.CodeQueueTimeout, messages.CodeQueueDeadline,
}

// pool has counters of a pool that alerts watch stand at zero before the first event, so that a rate sees that one too.
func (m *metrics) pool(name string) {
	for _, code := range timeoutCodes {
		m.timeouts.WithLabelValues(name, string(code))
	}
	m.executions.WithLabelValues(name, messages.Failed.String(), string(messages.CodePoisoned))
	m.restarts.WithLabelValues(name)
	m.echoLate.WithLabelValues(name)
}

// result counts what the store made of a change.
func (m *metrics) result(item actors.Item, r store.Result) {
	if r.Verdict == store.Stale {
		m.stale.WithLabelValues(item.Change.Name()).Inc()
		return
	}
	if r.Verdict != store.Applied || !r.Status.Terminal() || r.Execution == nil {
		return
	}
	code := labelCode(r.Execution.Error)
	m.end(r.Execution.Pool, r.Status, code).count.Inc()
	m.flow.ended(r.Execution, r.Status)
	if slices.Contains(timeoutCodes, code) {
		m.timeouts.WithLabelValues(r.Execution.Pool, string(code)).Inc()
	}
	var retry *messages.Execution
	switch c := item.Change.(type) {
	case *store.Finish:
		retry = c.Retry
	case *store.End:
		retry = c.Retry
	}
	if retry != nil {
		m.retried(r.Execution.Pool, retry.RetryReason, code)
	}
}

func (m *metrics) transaction(changes int, took time.Duration) {
	m.group.Observe(float64(changes))
	m.storeTime.Observe(took.Seconds())
}

func (m *metrics) probe(pool string, ok bool, took time.Duration) {
	result := "passed"
	if !ok {
		result = "failed"
	}
	m.probes.WithLabelValues(pool, result).Inc()
	m.probeTime.WithLabelValues(pool).Observe(took.Seconds())
}

func (m *metrics) leak(pool string, change int) { m.leaked.WithLabelValues(pool).Add(float64(change)) }

func (m *metrics) deadLetter(reason, resolution string) {
	if len(resolution) > 11 && resolution[:11] == "quarantined" {
		resolution = "quarantined"
	}
	m.letters.WithLabelValues(reason, resolution).Inc()
}

func (m *metrics) takenBack(pool, reason string) { m.takeBacks.WithLabelValues(pool, reason).Inc() }

// liveCollector reads gauges when it is scraped: workers by state and grade, executions by status.
type liveCollector struct {
	of                                      *sources
	workers, grades, waiting, oldest, broke *prometheus.Desc
	actors, mailboxes, letterDepth, unknown *prometheus.Desc
	storeUp, brokerUp, brokerBlocked        *prometheus.Desc
	clockAhead, nodesLost                   *prometheus.Desc
	stuck, unattached                       *prometheus.Desc
	uncommitted, heldBack                   *prometheus.Desc
	noticesWaiting, noticesAge              *prometheus.Desc
	webhooksDue, webhooksLate               *prometheus.Desc
	webhooksGivenUp                         *prometheus.Desc
	noticesTeller                           *prometheus.Desc
	peers, peersDropped, router             *prometheus.Desc
	aside, placed, stale, queued, beatAge   *prometheus.Desc
	streams, topics, resets                 *prometheus.Desc
}

func newLiveCollector(of *sources) *liveCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("troupe_"+name, help, labels, nil)
	}
	return &liveCollector{
		of:         of,
		workers:    desc("workers", "This node's workers by state.", "pool", "state"),
		grades:     desc("workers_by_grade", "This node's workers by health grade, their heartbeat included.", "pool", "grade"),
		waiting:    desc("executions", "Executions of the cluster that have not ended.", "pool", "status"),
		oldest:     desc("executions_oldest_seconds", "Time since the oldest of the cluster's executions that have not ended was requested, of those that wait the oldest that is due; 0: there is none.", "pool", "status"),
		placed:     desc("executions_scheduled_oldest_seconds", "Time since the oldest of the cluster's scheduled executions that no worker has started was placed; 0: there is none.", "pool"),
		stale:      desc("executions_stale_seconds", "Time since the oldest of the cluster's executions should have gone on: since it was placed and no worker has started it, or since it is due, without a session, and a worker of this node is ready. 0: there is none.", "pool"),
		aside:      desc("session_states_aside", "Stored states of the cluster's sessions that were set aside; counted up to 1,000.", "pool"),
		queued:     desc("worker_queue_depth", "Placements that wait on this node's workers.", "pool"),
		beatAge:    desc("heartbeat_age_seconds", "Time since the store accepted the heartbeats of this node's workers."),
		broke:      desc("pool_broken", "1 while every worker of the pool keeps failing.", "pool"),
		unattached: desc("workers_unattached", "This node's ready workers that get no work because their queue does not deliver.", "pool"),
		actors:     desc("actors", "Live actors."),
		stuck:      desc("stuck_actors", "Actors that have handled one message for too long while others wait."),
		mailboxes:  desc("mailbox_messages", "Messages in all mailboxes."),

		streams: desc("streams", "Live streams of the API that are open."),
		topics:  desc("stream_topics", "Different topics that live streams follow."),
		resets:  desc("stream_resets", "Times that a live stream began anew, because its reader was slow or came back late, since the start."),

		uncommitted: desc("recorder_uncommitted_seconds", "Age of the oldest change of an execution that the store has not committed; 0: none waits."),
		heldBack:    desc("recorder_held_executions", "Executions whose changes are not committed while all others are, for example because a row is locked."),

		unknown: desc("unknown_messages", "Messages that no case of their actor's switch handled, since the start."),

		clockAhead:    desc("clock_ahead_seconds", "How far this machine's clock is ahead of the store's; negative: behind."),
		storeUp:       desc("store_up", "1 while the store answers."),
		brokerUp:      desc("broker_up", "1 while the broker is connected."),
		brokerBlocked: desc("broker_blocked", "1 while the broker accepts no messages (a memory or disk alarm)."),

		letterDepth: desc("dead_letter_queue_messages", "Dead letters that wait to be handled."),

		noticesWaiting:  desc("notices_pending", "Completion notices of all nodes that wait to be sent; counted up to 2,000 rows of the outbox, of up to 500 each."),
		webhooksDue:     desc("webhooks_pending", "Webhooks of all nodes that are to be called, or called again; counted up to 10,000."),
		webhooksLate:    desc("webhooks_oldest_seconds", "Since when the oldest webhook that is to be called is due, of all nodes; 0: none is."),
		webhooksGivenUp: desc("webhooks_given_up", "Webhooks of all nodes that were given up and are still stored; counted up to 10,000."),
		noticesAge:      desc("notices_oldest_seconds", "Age of the oldest completion notice that waits to be sent, of all nodes."),
		noticesTeller:   desc("notices_teller", "1 on the node that sends the notices of all nodes."),

		nodesLost:    desc("nodes_lost_recently", "Nodes that were lost in the last ten minutes, of all nodes: they ended without a drain, froze, or lost their way to the store."),
		peers:        desc("peers", "Other nodes by whether this one reaches them: reached, suspect, or not heard yet.", "state"),
		router:       desc("pool_router", "Which node routes for the pool: 1 for the mode that this node is in.", "pool", "mode"),
		peersDropped: desc("peer_messages_dropped", "Messages from and to other nodes that were dropped, since the start.", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (c *liveCollector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *liveCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	live, waiting := c.of.system.Registry.Depth()
	gauge(c.actors, float64(live))
	gauge(c.mailboxes, float64(waiting))
	gauge(c.stuck, float64(len(c.of.system.Registry.Stuck())))
	gauge(c.unknown, float64(actors.UnknownTotal()))
	followed := c.of.hub.State()
	gauge(c.streams, float64(followed.Readers))
	gauge(c.topics, float64(followed.Topics))
	gauge(c.resets, float64(followed.Resets))
	c.backlog(gauge)
	c.servers(gauge)
	c.network(gauge)
	if !c.of.phase.started.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	ready := c.pools(ctx, gauge)
	c.letters(ctx, gauge)
	c.notices(ctx, gauge)
	c.webhooks(ctx, gauge)
	if !c.of.servers.store.read().up {
		return
	}
	c.states(ctx, gauge)
	if depths, err := c.of.store.Depths(ctx); err == nil {
		c.depths(depths, ready, gauge)
	}
	c.lost(ctx, gauge) // last: it may ask more than once
}

// servers shows how the store and the broker stand.
func (c *liveCollector) servers(gauge func(*prometheus.Desc, float64, ...string)) {
	store, broker := c.of.servers.store.read(), c.of.servers.broker.read()
	gauge(c.storeUp, number(store.up))
	if skew := c.of.clock.Skew(); skew.Known {
		gauge(c.clockAhead, skew.Ahead.Seconds())
	}
	gauge(c.brokerUp, number(broker.up))
	gauge(c.brokerBlocked, number(broker.blocked))
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
