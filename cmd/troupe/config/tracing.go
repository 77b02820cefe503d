package config

import (
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/tracing"
)

// Variables of OpenTelemetry that count where no key of Troupe says otherwise. Others, such as those of headers, certificates and the
// resource, are read by its library.
const (
	otelDisabled  = "OTEL_SDK_DISABLED"
	otelEndpoint  = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otelTraces    = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	otelTracePath = "/v1/traces"
)

// fillTracing resolves what OpenTelemetry's variables say.
func (l *Loaded) fillTracing(env map[string]string) {
	t := &l.Tracing
	if off, err := strconv.ParseBool(env[otelDisabled]); err == nil && off {
		t.Enabled = false
	}
	if !t.Enabled || t.Endpoint != "" {
		return
	}
	k := l.byPath()["tracing.endpoint"]
	switch {
	case env[otelTraces] != "": // as it stands
		t.Endpoint, k.Source = env[otelTraces], "env "+otelTraces
	case env[otelEndpoint] != "":
		t.Endpoint, k.Source = strings.TrimSuffix(env[otelEndpoint], "/")+otelTracePath, "env "+otelEndpoint
	default:
		t.Endpoint = tracing.DefaultEndpoint
	}
}

// tracing checks where spans go.
func (c *checker) tracing(l *Loaded) {
	if l.Tracing.Endpoint == "" {
		return
	}
	if problem := tracing.EndpointProblem(l.Tracing.Endpoint); problem != "" {
		c.bad("tracing.endpoint", "%s", problem)
	}
}
