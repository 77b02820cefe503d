// Package collector is a collector of traces for tests: it takes spans by OTLP over HTTP, as protobuf, and keeps them.
package collector

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	colpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// bodyMax bounds a request, in bytes.
const bodyMax = 64 << 20

// Span is one span that was exported.
type Span struct {
	Trace, ID, Parent string // in hexadecimal digits; Parent is empty for the first of a trace
	Name, State       string
	Kind              string // as in SPAN_KIND_CONSUMER, without the beginning
	Failed            bool
	Message           string // of its status
	Attributes        map[string]string
	Resource          map[string]string
	Begin, End        time.Time
}

// Operation is the first word of the span's name.
func (s Span) Operation() string {
	operation, _, _ := strings.Cut(s.Name, " ")
	return operation
}

// Collector is a running collector.
type Collector struct {
	server *httptest.Server
	mu     sync.Mutex
	spans  []Span
	calls  []string // method, path and a header of each request
	refuse int      // status of the answers; 0: 200
	more   chan struct{}
}

// Start starts a collector that ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{more: make(chan struct{}, 1)}
	c.server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.server.Close)
	return c
}

// URL is the collector's address, without a path.
func (c *Collector) URL() string { return c.server.URL }

// Stop ends it before its test ends: nobody listens at its address then.
func (c *Collector) Stop() { c.server.Close() }

// Refuse has it answer with a status; 0: it takes spans again.
func (c *Collector) Refuse(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = status
}

// Calls are the requests so far: method, path and the header x-test.
func (c *Collector) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Spans are the spans so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Trace are the spans so far of one trace.
func (c *Collector) Trace(id string) []Span {
	return slices.DeleteFunc(c.Spans(), func(s Span) bool { return s.Trace != id })
}

// Await returns the spans of a trace once they satisfy a condition. It fails the test if that takes too long.
func (c *Collector) Await(t testing.TB, trace string, holds func([]Span) bool) []Span {
	t.Helper()
	late := time.After(60 * time.Second)
	for {
		if spans := c.Trace(trace); holds(spans) {
			return spans
		}
		select {
		case <-c.more:
		case <-late:
			t.Fatalf("the collector has of trace %s only:\n%s", trace, describe(c.Trace(trace)))
		}
	}
}

// AwaitNames is Await until the trace has spans of all of these names.
func (c *Collector) AwaitNames(t testing.TB, trace string, names ...string) []Span {
	t.Helper()
	return c.Await(t, trace, func(spans []Span) bool {
		for _, name := range names {
			if !slices.ContainsFunc(spans, func(s Span) bool { return s.Name == name }) {
				return false
			}
		}
		return true
	})
}

func describe(spans []Span) string {
	lines := make([]string, len(spans))
	for i, s := range spans {
		lines[i] = fmt.Sprintf("%s %s below %s %v", s.Name, s.ID, s.Parent, s.Attributes)
	}
	return strings.Join(lines, "\n")
}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	body, err := read(r)
	c.mu.Lock()
	c.calls = append(c.calls, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Test")))
	refuse := c.refuse
	c.mu.Unlock()
	var request colpb.ExportTraceServiceRequest
	switch {
	case refuse != 0:
		http.Error(w, "refused by the test", refuse)
		return
	case err != nil, r.Header.Get("Content-Type") != "application/x-protobuf", proto.Unmarshal(body, &request) != nil:
		http.Error(w, "no OTLP", http.StatusBadRequest)
		return
	}
	c.take(&request)
	w.Header().Set("Content-Type", "application/x-protobuf")
	answer, _ := proto.Marshal(&colpb.ExportTraceServiceResponse{})
	_, _ = w.Write(answer)
	select {
	case c.more <- struct{}{}:
	default:
	}
}

func read(r *http.Request) ([]byte, error) {
	from := io.LimitReader(r.Body, bodyMax)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(from)
		if err != nil {
			return nil, err
		}
		from = io.LimitReader(unzipped, bodyMax)
	}
	return io.ReadAll(from)
}

func (c *Collector) take(request *colpb.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.GetResourceSpans() {
		resource := attributes(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, spanOf(s, resource))
			}
		}
	}
}

func spanOf(s *tracepb.Span, resource map[string]string) Span {
	return Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Name: s.GetName(), State: s.GetTraceState(), Kind: strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"),
		Failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR, Message: s.GetStatus().GetMessage(),
		Attributes: attributes(s.GetAttributes()), Resource: resource,
		Begin: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())), //nolint:gosec // until 2262
	}
}

func attributes(list []*commonpb.KeyValue) map[string]string {
	all := make(map[string]string, len(list))
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			all[a.GetKey()] = fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_BoolValue:
			all[a.GetKey()] = fmt.Sprint(v.BoolValue)
		default:
			all[a.GetKey()] = a.GetValue().String()
		}
	}
	return all
}
