package tracing

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// How spans are exported.
const (
	batchMax  = 512         // spans of one export
	batchWait = time.Second // from the first span of a batch to its export
)

// queue holds the spans that have ended until they are exported. It implements sdktrace.SpanProcessor. Its goroutine begins with the
// tracer and ends with Shutdown.
type queue struct {
	exporter sdktrace.SpanExporter
	endpoint string
	timeout  time.Duration
	logger   hclog.Logger
	spans    chan sdktrace.ReadOnlySpan
	closing  chan struct{} // closed: no more spans are taken, and what waits is exported
	closed   chan struct{} // closed: the goroutine has ended
	close    sync.Once
	abort    context.CancelFunc
	ctx      context.Context // of exports; ends when there is no time for them any more

	count   func(result string, spans int)
	lost    int         // spans whose export failed since it last succeeded
	failing atomic.Bool // the last export failed
}

func newQueue(cfg Config, exporter sdktrace.SpanExporter, endpoint string) *queue {
	q := &queue{
		exporter: exporter, endpoint: endpoint, timeout: cfg.Timeout, logger: cfg.Logger, spans: make(chan sdktrace.ReadOnlySpan, cfg.Queue),
		closing: make(chan struct{}), closed: make(chan struct{}), count: cfg.Count,
	}
	if q.count == nil {
		q.count = func(string, int) {}
	}
	for _, result := range []string{Exported, Failed, Dropped} {
		q.count(result, 0)
	}
	q.ctx, q.abort = context.WithCancel(context.Background())
	go q.run()
	return q
}

// OnStart implements sdktrace.SpanProcessor.
func (q *queue) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor. It never waits.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	select {
	case <-q.closing:
		q.count(Dropped, 1)
		return
	default:
	}
	select {
	case q.spans <- s:
	default:
		q.count(Dropped, 1)
	}
}

// ForceFlush implements sdktrace.SpanProcessor. Nobody calls it.
func (q *queue) ForceFlush(context.Context) error { return nil }

// Shutdown implements sdktrace.SpanProcessor: it exports what waits, until ctx ends.
func (q *queue) Shutdown(ctx context.Context) error {
	q.close.Do(func() { close(q.closing) })
	stop := context.AfterFunc(ctx, q.abort)
	<-q.closed // soon after ctx has ended
	stop()
	q.abort()
	return q.exporter.Shutdown(context.WithoutCancel(ctx))
}

func (q *queue) run() {
	defer close(q.closed)
	for {
		select {
		case first := <-q.spans:
			q.export(q.gather(first))
		case <-q.closing:
			q.rest()
			return
		}
	}
}

// gather waits a moment for the spans that go together with the first.
func (q *queue) gather(first sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	batch := append(make([]sdktrace.ReadOnlySpan, 0, 16), first)
	over := time.NewTimer(batchWait)
	defer over.Stop()
	for len(batch) < batchMax {
		select {
		case s := <-q.spans:
			batch = append(batch, s)
		case <-over.C:
			return batch
		case <-q.closing:
			return batch
		}
	}
	return batch
}

// rest exports what is there, while there is time.
func (q *queue) rest() {
	for {
		var batch []sdktrace.ReadOnlySpan
		for len(batch) < batchMax && len(q.spans) > 0 {
			batch = append(batch, <-q.spans)
		}
		if len(batch) == 0 {
			return
		}
		q.export(batch)
	}
}

// export exports some spans. That it fails is logged once, until it succeeds again.
func (q *queue) export(batch []sdktrace.ReadOnlySpan) {
	ctx, cancel := context.WithTimeout(q.ctx, q.timeout)
	defer cancel()
	err := q.exporter.ExportSpans(ctx, batch)
	switch was := q.failing.Swap(err != nil); {
	case err != nil:
		q.lost += len(batch)
		q.count(Failed, len(batch))
		if !was {
			q.logger.Warn("spans not exported, dropping them until the collector takes them", "endpoint", q.endpoint, "error", clip(err.Error()))
		}
	default:
		q.count(Exported, len(batch))
		if was {
			q.logger.Info("spans are exported again", "endpoint", q.endpoint, "lost", q.lost)
			q.lost = 0
		}
	}
}

// clip bounds what a collector answers, for the log.
func clip(text string) string {
	const limit = 512
	if len(text) > limit {
		return text[:limit] + "…"
	}
	return text
}
