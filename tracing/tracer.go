package tracing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Bounds of a span.
const (
	attributesMax = 24
	valueMax      = 256 // bytes of an attribute's value
)

// What becomes of a span that has ended.
const (
	Exported = "exported" // the collector has taken it
	Failed   = "failed"   // the collector has not
	Dropped  = "dropped"  // the queue had no room for it
)

// Config is what a Tracer is made of.
type Config struct {
	Settings
	Node        string // its name
	Incarnation string // of the node, which a restart changes
	Version     string
	Logger      hclog.Logger
	// Count, where set, is told what became of spans: Exported, Failed or Dropped.
	Count func(result string, spans int)
}

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
	queue    *queue
}

// New makes a tracer, and calls nobody until there are spans; nil: the settings say that there are none.
func New(cfg Config) (*Tracer, error) {
	if !cfg.Enabled {
		return nil, nil
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	endpoint := urlOf(cfg.Endpoint)
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(endpoint), otlptracehttp.WithTimeout(cfg.Timeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: cfg.Timeout, MaxElapsedTime: cfg.Timeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("tracing.endpoint: %w", err)
	}
	return newTracer(cfg, exporter, endpoint)
}

func newTracer(cfg Config, exporter sdktrace.SpanExporter, endpoint string) (*Tracer, error) {
	about, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "troupe"), attribute.String("service.version", cfg.Version),
		attribute.String("service.instance.id", cfg.Incarnation), attribute.String("troupe.node", cfg.Node),
	), resource.WithFromEnv()) // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES count more
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeCountLimit, limits.AttributeValueLengthLimit, limits.EventCountLimit, limits.LinkCountLimit = attributesMax, valueMax, 1, 1
	q := newQueue(cfg, exporter, endpoint)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(q), sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.SampleRatio))),
	)
	return &Tracer{provider: provider, queue: q, tracer: provider.Tracer("github.com/troupe-run/troupe", trace.WithInstrumentationVersion(cfg.Version))}, nil
}

// flushTime bounds the export of what waits when the node stops; to a collector that was away before, lostTime.
const (
	flushTime = 3 * time.Second
	lostTime  = 300 * time.Millisecond
)

// Close exports what waits, for a bounded time. Later spans are dropped.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	limit := flushTime
	if t.queue.failing.Load() {
		limit = lostTime
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := t.provider.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // the spans that are lost by it are counted, and the log says that the collector is away
	}
	return err
}
