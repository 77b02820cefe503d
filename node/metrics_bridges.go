package node

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-run/troupe/store"
)

// bridgeMetrics are those of the ways in and out beside the HTTP API.
type bridgeMetrics struct {
	taken, told, hints, calls *prometheus.CounterVec
	awaited                   *prometheus.CounterVec
	callTime                  prometheus.Histogram
}

func newBridgeMetrics(registry *prometheus.Registry) *bridgeMetrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "troupe_" + name, Help: help}, []string{label})
		registry.MustRegister(c)
		return c
	}
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "troupe_webhook_call_seconds", Help: "Time of one call of a webhook, until its answer or its failure.",
		Buckets: []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10}})
	registry.MustRegister(took)
	return &bridgeMetrics{
		callTime: took,
		calls:    counter("webhooks_total", "Calls of webhooks: told (taken), failed (called again later), given_up (not called again).", "result"),
		taken:    counter("intake_total", "Submissions by broker or by the store's inbox: accepted, existing, refused, malformed, given_back.", "result"),
		told:     counter("notices_total", "Completion notices: told (sent), unheard (no queue is bound), repeated, put_off (refused three times, sent later), gone (purged before they were sent).", "result"),
		awaited: counter("awaited_outcomes_total", "Outcomes between nodes, for callers who wait on another node than the one that stores them: asked (by this node), sent, taken, "+
			"too_large (read from the store), crowded (no room), failed (to ask or to send).", "result"),
		hints: counter("store_hints_total", "Hints from the store, by kind.", "kind"),
	}
}

func (m *bridgeMetrics) intake(result string) { m.taken.WithLabelValues(result).Inc() }

func (m *bridgeMetrics) notices(result string, n int) { m.told.WithLabelValues(result).Add(float64(n)) }

func (m *bridgeMetrics) outcomes(result string, n int) {
	m.awaited.WithLabelValues(result).Add(float64(n))
}

func (m *bridgeMetrics) webhook(result string, took time.Duration) {
	m.calls.WithLabelValues(result).Inc()
	if took > 0 {
		m.callTime.Observe(took.Seconds())
	}
}

// webhooks reads how many webhooks are due or were given up.
func (c *liveCollector) webhooks(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) {
	n, err := c.of.store.CountWebhooks(ctx)
	if err != nil {
		return
	}
	gauge(c.webhooksDue, float64(n.Due))
	gauge(c.webhooksLate, n.Late.Seconds())
	gauge(c.webhooksGivenUp, float64(n.GivenUp))
}

// hintNames are the words for the kinds of hint.
var hintNames = map[store.HintKind]string{
	store.HintLook: "look", store.HintRequested: "requested", store.HintCancel: "cancel", store.HintInbox: "inbox",
	store.HintFinished: "finished", store.HintRouter: "router",
}

func (m *bridgeMetrics) hint(k store.HintKind) {
	name, ok := hintNames[k]
	if !ok {
		name = "unknown"
	}
	m.hints.WithLabelValues(name).Inc()
}

// notices reads how many notices wait to be told, and for how long.
func (c *liveCollector) notices(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) {
	if !c.of.cfg.tells() {
		return
	}
	teller := 0.0
	if r := c.of.notices.report.Load(); r != nil && r.Teller {
		teller = 1
	}
	gauge(c.noticesTeller, teller)
	pending, err := c.of.store.PendingNotices(ctx)
	if err != nil {
		return
	}
	gauge(c.noticesWaiting, float64(pending.Count))
	gauge(c.noticesAge, pending.Age.Seconds())
}
