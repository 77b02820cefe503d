package tracing

import (
	"fmt"
	"net/url"
	"time"
)

// DefaultEndpoint is where a collector on this machine takes spans.
const DefaultEndpoint = "http://127.0.0.1:4318/v1/traces"

// Settings say whether and where spans go.
type Settings struct {
	Enabled     bool          `yaml:"enabled" help:"Whether the node makes spans of executions and exports them by OTLP over HTTP. OTEL_SDK_DISABLED=true switches that off too."`
	Endpoint    string        `yaml:"endpoint" secret:"url" help:"Address of the collector, as in http://127.0.0.1:4318. /v1/traces is added if it has no path. Empty: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT, else http://127.0.0.1:4318."`
	SampleRatio float64       `yaml:"sample_ratio" range:"0..1" help:"Share of the submissions without a trace that begin one. A submission with a trace is sampled if its caller has sampled it."`
	Queue       int           `yaml:"queue" range:"64..262144" help:"Spans that may wait for the export. More are dropped and counted. A span takes about 2 KiB."`
	Timeout     time.Duration `yaml:"timeout" range:"0.1..60" unit:"s" help:"How long the export of some spans may take, repetitions included. After it they are dropped and counted."`
}

// Defaults are the settings of somebody who sets nothing.
func Defaults() Settings {
	return Settings{SampleRatio: 1, Queue: 8192, Timeout: 10 * time.Second}
}

// Check returns what is wrong with the settings; the text names the setting.
func (s *Settings) Check() error {
	if s.Enabled && s.Endpoint != "" {
		if problem := EndpointProblem(s.Endpoint); problem != "" {
			return fmt.Errorf("tracing.endpoint: %s", problem)
		}
	}
	if s.SampleRatio < 0 || s.SampleRatio > 1 {
		return fmt.Errorf("tracing.sample_ratio: must be 0 to 1, got %g", s.SampleRatio)
	}
	return nil
}

// EndpointProblem says what is wrong with an endpoint; empty: nothing.
func EndpointProblem(endpoint string) string {
	switch u, err := url.Parse(endpoint); {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "must be an http:// or https:// address, as in http://127.0.0.1:4318"
	case u.User != nil:
		return "must have no user and password; give what the collector wants to see in OTEL_EXPORTER_OTLP_HEADERS"
	case u.RawQuery != "" || u.Fragment != "":
		return "must have no query and no fragment"
	}
	return ""
}

// urlOf is the endpoint with its path.
func urlOf(endpoint string) string {
	if endpoint == "" {
		return DefaultEndpoint
	}
	if u, err := url.Parse(endpoint); err == nil && (u.Path == "" || u.Path == "/") {
		u.Path = "/v1/traces"
		return u.String()
	}
	return endpoint
}
