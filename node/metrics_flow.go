package node

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/retry"
)

// flowMetrics are those of the way between stages: how placements are made and how long they wait, how long workers are
// away, whether retries help, and what the dead-letter queue holds.
type flowMetrics struct {
	placements, rescued     *prometheus.CounterVec
	snapshots, reports      *prometheus.CounterVec
	unknownReplies, short   *prometheus.CounterVec
	batches, waits, outages *prometheus.HistogramVec
	letterTime              prometheus.Histogram
}

func newFlowMetrics(registry *prometheus.Registry) *flowMetrics {
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "troupe_" + name, Help: help, Buckets: buckets}, []string{"pool"})
	}
	f := &flowMetrics{
		placements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_placements_total", Help: "Placements by the health grade of the worker that was chosen.",
		}, []string{"pool", "grade"}),
		rescued: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_retries_succeeded_total", Help: "Retries that completed, by their reason.",
		}, []string{"pool", "reason"}),
		snapshots: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_session_snapshots_total", Help: "Requested snapshots of sessions, by result.",
		}, []string{"pool", "result"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_pool_reports_total", Help: "Reports to the router of a pool on another node, by result: taken, refused or failed.",
		}, []string{"pool", "result"}),
		unknownReplies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_worker_unknown_replies_total", Help: "Replies of worker programs to no request, which were dropped.",
		}, []string{"pool"}),
		short: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_worker_start_shortages_total",
			Help: "Programs that were not started because the node lacks open files, memory or processes. Their runs are placed again.",
		}, []string{"pool"}),
		batches: histogram("router_batch_placements", "Placements of one decision of the router.", counts),
		waits:   histogram("execution_queue_wait_seconds", "From placed to running. What was handed to a worker directly is not counted: its claim places it.", workTimes),
		outages: histogram("worker_downtime_seconds", "Downtime of workers that failed, or whose node died: from the loss until their slot is ready again, each once.", workTimes),
		letterTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "troupe_dead_letter_seconds", Help: "From the expiry of a placement on its worker's queue to the handling of its dead letter, by the store's clock.", Buckets: workTimes,
		}),
	}
	registry.MustRegister(f.placements, f.rescued, f.snapshots, f.reports, f.unknownReplies, f.short, f.batches, f.waits, f.outages, f.letterTime)
	return f
}

func (f *flowMetrics) placed(pool string, grades []health.Grade) {
	f.batches.WithLabelValues(pool).Observe(float64(len(grades)))
	for _, g := range grades {
		f.placements.WithLabelValues(pool, g.String()).Inc()
	}
}

func (f *flowMetrics) unknownReply(pool string) { f.unknownReplies.WithLabelValues(pool).Inc() }

// snapshot counts a session's state that was asked for.
func (m *metrics) snapshot(pool, result string) { m.flow.snapshots.WithLabelValues(pool, result).Inc() }

func (f *flowMetrics) reported(pool string, n lead.News) {
	f.reports.WithLabelValues(pool, n.String()).Inc()
}

func (f *flowMetrics) away(pool string, d time.Duration) {
	f.outages.WithLabelValues(pool).Observe(d.Seconds())
}

// started observes how long a run waited on its worker's queue.
func (f *flowMetrics) started(pool string, e *messages.Execution) {
	if wait := e.StartedAt.Sub(e.ScheduledAt); wait >= 0 && !e.ScheduledAt.IsZero() {
		f.waits.WithLabelValues(pool).Observe(wait.Seconds())
	}
}

// retried counts a retry that was made.
func (m *metrics) retried(pool, reason string, code messages.Code) {
	m.retries.WithLabelValues(pool, labelReason(reason), string(code)).Inc()
}

// labelReason is a retry's reason as a label. One that is no class, as an older node's may be, is folded into one.
func labelReason(reason string) string {
	if retry.Known(reason) {
		return reason
	}
	return string(codeOther)
}

// ended counts a retry that helped.
func (f *flowMetrics) ended(e *messages.Execution, status messages.Status) {
	if status != messages.Completed || e.RetryCount == 0 {
		return
	}
	f.rescued.WithLabelValues(e.Pool, labelReason(e.RetryReason)).Inc()
}

func (f *flowMetrics) letter(late time.Duration) { f.letterTime.Observe(late.Seconds()) }

// letters reads how many dead letters wait to be handled.
func (c *liveCollector) letters(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) {
	queue := c.of.cfg.Broker.DeadLetterQueue()
	if queue == "" {
		return
	}
	if info, err := c.of.broker.Inspect(ctx, queue); err == nil {
		gauge(c.letterDepth, float64(info.Ready))
	}
}
