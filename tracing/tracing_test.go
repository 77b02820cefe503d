package tracing

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/test/collector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	id     = "0af7651916cd43dd8448eb211c80319c"
	parent = "00-" + id + "-b7ad6b7169203331-01"
)

// tally counts what became of spans.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) add(result string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[result] += n
}

func (c *tally) of(result string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[result]
}

func settings(endpoint string) Settings {
	s := Defaults()
	s.Enabled, s.Endpoint = true, endpoint
	return s
}

func newTest(t *testing.T, s Settings) (*Tracer, *tally, *bytes.Buffer) {
	t.Helper()
	counted, log := &tally{}, &bytes.Buffer{}
	tracer, err := New(Config{
		Settings: s, Node: "n1", Incarnation: "abc", Version: "1.2.3", Count: counted.add,
		Logger: hclog.New(&hclog.LoggerOptions{Output: log, Mutex: &sync.Mutex{}}),
	})
	require.NoError(t, err)
	return tracer, counted, log
}

func execution(trace string) *messages.Execution {
	return &messages.Execution{ID: messages.NewExecutionID(), Action: "core.echo", Pool: "go", Trace: trace, Parameters: []byte(`{"password":"s3cret"}`)}
}

func TestSpansOfAnExecution(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	tracer, counted, _ := newTest(t, settings(c.URL()))
	at := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	after := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }

	e := execution(parent + " vendor=1")
	submit := tracer.Submit(e, "api", at)
	require.NotEqual(t, parent, messages.TraceParent(e.Trace), "the trace goes on below the span")
	require.Equal(t, id, messages.TraceID(e.Trace))
	require.Equal(t, "vendor=1", messages.TraceState(e.Trace))
	submit.Stored(nil, after(1))
	e.Attempt = 1
	tracer.Claimed(e, Way{Due: after(1), Placed: after(2), Published: after(3), Arrived: after(4), Asked: after(5)}, after(6))
	run := tracer.Run(e, "n1/go/0", 7, after(7))
	below := run.Trace("")
	run.Ended(&messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: "boom", Message: "s3cret"}}, after(8))
	finish := tracer.Finish(e, after(8))
	finish.Written(messages.Failed, "", after(9))
	require.NoError(t, tracer.Close())

	spans := map[string]collector.Span{}
	for _, s := range c.Spans() {
		spans[s.Operation()] = s
	}
	require.Len(t, spans, 7)
	require.Equal(t, 7, counted.of(Exported))
	require.Equal(t, "b7ad6b7169203331", spans["submit"].Parent)
	for i, want := range []struct{ operation, kind, of string }{
		{"submit", "PRODUCER", "send"}, {"place", "INTERNAL", ""}, {"publish", "PRODUCER", "send"}, {"deliver", "CONSUMER", "receive"},
		{"claim", "INTERNAL", "receive"}, {"run", "CONSUMER", "process"}, {"finish", "INTERNAL", "settle"},
	} {
		s := spans[want.operation]
		require.Equal(t, want.operation+" core.echo", s.Name)
		require.Equal(t, []string{id, want.kind, "vendor=1"}, []string{s.Trace, s.Kind, s.State})
		require.Equal(t, []string{"troupe", want.operation, want.of, "go", e.ID.String(), "core.echo"}, []string{
			s.Attributes["messaging.system"], s.Attributes["messaging.operation.name"], s.Attributes["messaging.operation.type"],
			s.Attributes["messaging.destination.name"], s.Attributes["messaging.message.id"], s.Attributes["troupe.action"]})
		require.Equal(t, []string{"troupe", "1.2.3", "abc", "n1"}, []string{s.Resource["service.name"], s.Resource["service.version"],
			s.Resource["service.instance.id"], s.Resource["troupe.node"]})
		require.Equal(t, time.Second, s.End.Sub(s.Begin), s.Name)
		if i > 0 {
			require.Equal(t, spans["submit"].ID, s.Parent, s.Name)
		}
		for key, value := range s.Attributes {
			require.NotContains(t, key+value+s.Message, "s3cret")
		}
	}
	ran := spans["run"]
	require.Equal(t, []string{"boom", "failed", "n1/go/0", "7", "1"}, []string{ran.Attributes["error.type"], ran.Attributes["troupe.outcome"],
		ran.Attributes["troupe.worker.id"], ran.Attributes["troupe.worker.generation"], ran.Attributes["troupe.attempt"]})
	require.True(t, ran.Failed)
	require.Equal(t, "boom", ran.Message)
	require.Equal(t, "00-"+id+"-"+ran.ID+"-01 vendor=1", below, "the code gets the run's own context")
	require.False(t, spans["finish"].Failed)
}

// The span of a run that is placed again has no outcome of the execution's, and the one of a lost run's end names its worker.
func TestSpansOfALostRun(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	tracer, _, _ := newTest(t, settings(c.URL()))
	e, now := execution(parent), time.Now()
	e.Attempt, e.WorkerID, e.Generation = 1, "n2/go/0", 3
	tracer.Run(e, "n1/go/0", 7, now).Rescued(&messages.Outcome{Status: messages.Abandoned, Error: &messages.Error{Code: messages.CodeWorkerLost}}, now)
	tracer.Lost(e, now).Written(messages.Requested, messages.CodeWorkerLost, now)
	require.NoError(t, tracer.Close())
	spans := c.Trace(id)
	require.Len(t, spans, 2)
	run, finish := spans[0].Attributes, spans[1].Attributes
	require.Equal(t, []string{"rescued", "worker_lost"}, []string{run["troupe.outcome"], run["error.type"]})
	require.Equal(t, []string{"finish core.echo", "n2/go/0", "3", "requested", "worker_lost"}, []string{
		spans[1].Name, finish["troupe.worker.id"], finish["troupe.worker.generation"], finish["troupe.status"], finish["error.type"]})
	require.True(t, spans[0].Failed)
	require.True(t, spans[1].Failed)
}

// A wall clock that is set back makes no span that ends before it begins.
func TestASpanDoesNotEndBeforeItBegins(t *testing.T) {
	t.Parallel()
	col := collector.Start(t)
	tracer, _, _ := newTest(t, settings(col.URL()))
	e, now := execution(parent), time.Now()
	tracer.Run(e, "n/p/0", 1, now).Ended(&messages.Outcome{Status: messages.Completed}, now.Round(0).Add(-time.Minute))
	require.NoError(t, tracer.Close())
	spans := col.Spans()
	require.Len(t, spans, 1)
	require.Equal(t, spans[0].Begin, spans[0].End)
}

// Without a broker server nothing is placed in the store before the claim, but what has a session.
func TestWaysToAWorker(t *testing.T) {
	t.Parallel()
	at := time.Now().Truncate(time.Microsecond)
	after := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	for name, c := range map[string]struct {
		way  Way
		want map[string][2]int
	}{
		"handed over":                {Way{Due: after(1), Asked: after(3)}, map[string][2]int{"place": {1, 3}, "claim": {3, 9}}},
		"placed, and not by message": {Way{Due: after(1), Placed: after(2), Asked: after(5)}, map[string][2]int{"place": {1, 2}, "claim": {5, 9}}},
		"clocks that differ":         {Way{Due: after(5), Placed: after(2), Published: after(1), Arrived: after(0), Asked: after(20)}, map[string][2]int{"place": {5, 5}, "publish": {2, 2}, "deliver": {1, 1}, "claim": {20, 20}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			col := collector.Start(t)
			tracer, _, _ := newTest(t, settings(col.URL()))
			tracer.Claimed(execution(parent), c.way, after(9))
			require.NoError(t, tracer.Close())
			got := map[string][2]int{}
			for _, s := range col.Spans() {
				got[s.Operation()] = [2]int{int(s.Begin.Sub(at) / time.Second), int(s.End.Sub(at) / time.Second)}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestWhichTracesAreSampled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trace string
		ratio float64
		spans bool
	}{
		"one that its caller has sampled":         {parent, 1, true},
		"and that counts more than the ratio":     {parent, 0, true},
		"one that its caller has not sampled":     {parent[:54] + "0", 1, false},
		"a random one that is not sampled":        {parent[:54] + "2", 1, false},
		"a random one that is":                    {parent[:54] + "3", 0, true},
		"a new one":                               {"", 1, true},
		"none of them":                            {"", 0, false},
		"a trace of an older release's bad input": {"t", 1, false},
		"another one":                             {strings.Repeat("1", 60), 1, false},
		"and another":                             {"00-" + strings.Repeat("x", 32) + "-b7ad6b7169203331-01", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			col := collector.Start(t)
			s := settings(col.URL())
			s.SampleRatio = c.ratio
			tracer, _, _ := newTest(t, s)
			e := execution(c.trace)
			tracer.Submit(e, "api", time.Now()).Stored(nil, time.Now())
			if !c.spans {
				require.Equal(t, c.trace, e.Trace, "it stays what the caller gave")
			} else {
				require.Len(t, messages.TraceID(e.Trace), 32)
			}
			tracer.Claimed(e, Way{}, time.Now())
			tracer.Run(e, "w", 1, time.Now()).Ended(&messages.Outcome{Status: messages.Completed}, time.Now())
			tracer.Finish(e, time.Now()).Written(messages.Completed, "", time.Now())
			require.NoError(t, tracer.Close())
			require.Equal(t, c.spans, len(col.Spans()) > 0)
			require.Equal(t, c.spans, len(col.Calls()) > 0, "nothing to export: no connection")
		})
	}
}

func TestARefusedSubmission(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	tracer, _, _ := newTest(t, settings(c.URL()))
	e, again := execution(parent), execution("")
	tracer.Submit(e, "api", time.Now()).Refused(e, messages.CodeKeyConflict, time.Now())
	require.Equal(t, parent, e.Trace, "a second try begins where the first did")
	other := execution("")
	tracer.Submit(again, "amqp", time.Now()).Stored(other, time.Now())
	require.NoError(t, tracer.Close())
	spans := c.Spans()
	require.Len(t, spans, 2)
	require.Equal(t, string(messages.CodeKeyConflict), spans[0].Attributes["error.type"])
	require.Equal(t, []string{"true", other.ID.String(), "amqp"},
		[]string{spans[1].Attributes["troupe.existing"], spans[1].Attributes["messaging.message.id"], spans[1].Attributes["troupe.submitted_by"]})
}

func TestAttributesAreBounded(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	tracer, _, _ := newTest(t, settings(c.URL()))
	e := execution(parent)
	e.Action, e.Pool = strings.Repeat("a", 10_000), strings.Repeat("p", 10_000)
	long := messages.Code(strings.Repeat("c", 10_000))
	tracer.Run(e, "w", 1, time.Now()).Ended(&messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: long}}, time.Now())
	require.NoError(t, tracer.Close())
	s := c.Spans()[0]
	require.Len(t, s.Message, messages.CodeMax)
	for key, value := range s.Attributes {
		require.LessOrEqual(t, len(value), valueMax, key)
	}
	require.LessOrEqual(t, len(s.Name), len("run ")+valueMax)
}

// A text that is cut within a character is exported, and so is what is sent with it.
func TestTextsAreCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	tracer, _, _ := newTest(t, settings(c.URL()))
	e := execution(parent)
	for _, code := range []messages.Code{"other", messages.Code("x" + strings.Repeat("é", messages.CodeMax)), "a\xffb"} {
		tracer.Run(e, "w", 1, time.Now()).Ended(&messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: code}}, time.Now())
	}
	e.Action = "x" + strings.Repeat("é", valueMax)
	tracer.Run(e, "w", 1, time.Now()).Ended(&messages.Outcome{Status: messages.Completed}, time.Now())
	require.NoError(t, tracer.Close())
	spans := c.Spans()
	require.Len(t, spans, 4)
	require.Equal(t, "other", spans[0].Message)
	require.Equal(t, "x"+strings.Repeat("é", messages.CodeMax/2-1), spans[1].Message)
	require.Equal(t, "ab", spans[2].Message)
	require.Equal(t, "run x"+strings.Repeat("é", valueMax/2-1), spans[3].Name)
}

// A node that does not trace has neither a tracer nor spans, and all is as before.
func TestNoTracer(t *testing.T) {
	tracer, err := New(Config{Settings: Defaults()})
	require.NoError(t, err)
	require.Nil(t, tracer)
	e := execution(parent)
	s := tracer.Submit(e, "api", time.Now())
	require.Nil(t, s)
	require.Equal(t, parent, e.Trace)
	s.Stored(nil, time.Now())
	s.Refused(e, "x", time.Now())
	tracer.Claimed(e, Way{}, time.Now())
	run := tracer.Run(e, "w", 1, time.Now())
	require.Equal(t, parent, run.Trace(e.Trace))
	run.Ended(&messages.Outcome{}, time.Now())
	run.Rescued(&messages.Outcome{}, time.Now())
	tracer.Finish(e, time.Now()).Written(0, "", time.Now())
	tracer.Lost(e, time.Now()).Written(0, "", time.Now())
	require.NoError(t, tracer.Close())
	require.Zero(t, testing.AllocsPerRun(100, func() {
		tracer.Submit(e, "api", time.Time{})
		tracer.Claimed(e, Way{}, time.Time{})
		tracer.Run(e, "w", 1, time.Time{})
		tracer.Finish(e, time.Time{})
	}))
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"": DefaultEndpoint, "http://c:4318": "http://c:4318/v1/traces", "http://c:4318/": "http://c:4318/v1/traces", "https://c/otlp/x": "https://c/otlp/x",
	} {
		require.Equal(t, want, urlOf(given))
	}
	for _, wrong := range []string{"c:4318", "grpc://c:4317", "http://", "http://user:s3cret@c", "http://c?x=1", "http://c/#x", "%"} {
		s := settings(wrong)
		_, err := New(Config{Settings: s})
		require.ErrorContains(t, err, "tracing.endpoint: must ", wrong)
		require.NotContains(t, err.Error(), "s3cret")
	}
	s := settings("")
	s.SampleRatio = 1.5
	require.ErrorContains(t, s.Check(), "tracing.sample_ratio")
}

// A collector that is away, or refuses, costs spans and one line of the log.
func TestACollectorThatIsAway(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	c.Refuse(http.StatusForbidden)
	tracer, counted, log := newTest(t, settings(c.URL()))
	span := func() {
		tracer.Run(execution(parent), "w", 1, time.Now()).Ended(&messages.Outcome{Status: messages.Completed}, time.Now())
	}
	for range 2 {
		span()
		before := counted.of(Failed)
		require.Eventually(t, func() bool { return counted.of(Failed) > before }, 30*time.Second, 5*time.Millisecond)
	}
	c.Refuse(0)
	span()
	require.Eventually(t, func() bool { return counted.of(Exported) == 1 }, 30*time.Second, 5*time.Millisecond)
	require.NoError(t, tracer.Close())
	require.Equal(t, 1, strings.Count(log.String(), "spans not exported"), log.String())
	require.Contains(t, log.String(), "refused by the test")
	require.Equal(t, 1, strings.Count(log.String(), "spans are exported again"), log.String())
	require.Contains(t, log.String(), "lost=2")
}

// stuck is an exporter that waits until its call is aborted.
type stuck struct{ called chan struct{} }

func (s *stuck) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	select {
	case s.called <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *stuck) Shutdown(context.Context) error { return nil }

// A collector that never answers fills the queue, which delays nobody, and does not hold the stop of the node.
func TestACollectorThatNeverAnswers(t *testing.T) {
	t.Parallel()
	exporter, counted := &stuck{called: make(chan struct{}, 1)}, &tally{}
	cfg := Config{Settings: settings("http://127.0.0.1:1"), Logger: hclog.NewNullLogger(), Count: counted.add}
	cfg.Queue, cfg.Timeout = 64, time.Hour
	tracer, err := newTracer(cfg, exporter, "")
	require.NoError(t, err)
	span := func() {
		tracer.Run(execution(parent), "w", 1, time.Now()).Ended(&messages.Outcome{Status: messages.Completed}, time.Now())
	}
	span()
	<-exporter.called // it is busy with the first
	for range 1000 {
		span()
	}
	require.Equal(t, 1000-64, counted.of(Dropped))
	began := time.Now()
	require.NoError(t, tracer.Close())
	require.Less(t, time.Since(began), 10*time.Second)
	require.Equal(t, 65, counted.of(Failed))
	span() // after the end nothing is taken
	require.Equal(t, 1000-64, counted.of(Dropped))
	require.Equal(t, 65, counted.of(Failed))
}

func TestAnAnswerThatIsHuge(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.Repeat("x", 1<<20), http.StatusBadRequest)
	}))
	defer server.Close()
	tracer, counted, log := newTest(t, settings(server.URL))
	tracer.Run(execution(parent), "w", 1, time.Now()).Ended(&messages.Outcome{Status: messages.Completed}, time.Now())
	require.NoError(t, tracer.Close())
	require.Equal(t, 1, counted.of(Failed))
	require.Less(t, log.Len(), 2000)
}
