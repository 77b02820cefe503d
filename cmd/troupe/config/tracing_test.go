package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Tracing is off whatever OpenTelemetry's variables say. Where it is on, they count behind Troupe's own keys.
func TestOpenTelemetrysVariables(t *testing.T) {
	t.Parallel()
	on := "TROUPE_TRACING_ENABLED=true"
	for name, c := range map[string]struct {
		env      []string
		enabled  bool
		endpoint string
	}{
		"nothing":               {nil, false, ""},
		"an endpoint alone":     {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318"}, false, ""},
		"on":                    {[]string{on}, true, "http://127.0.0.1:4318/v1/traces"},
		"an endpoint of all":    {[]string{on, "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318/"}, true, "http://c:4318/v1/traces"},
		"one of traces":         {[]string{on, "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://t/x"}, true, "https://t/x"},
		"Troupe's own":          {[]string{on, "TROUPE_TRACING_ENDPOINT=http://own:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://t/x"}, true, "http://own:1"},
		"switched off":          {[]string{on, "OTEL_SDK_DISABLED=true"}, false, ""},
		"switched off, perhaps": {[]string{on, "OTEL_SDK_DISABLED=maybe"}, true, "http://127.0.0.1:4318/v1/traces"},
	} {
		l := loaded(t, Sources{Environ: append(home, c.env...)})
		require.Equal(t, c.enabled, l.Tracing.Enabled, name)
		require.Equal(t, c.endpoint, l.Tracing.Endpoint, name)
	}
}

func TestWrongTracingSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"tracing: {endpoint: 'collector:4318'}":                    "tracing.endpoint: must be an http:// or https:// address",
		"tracing: {enabled: true, endpoint: 'http://me:s3cret@c'}": "tracing.endpoint: must have no user and password; give what the collector wants to see in OTEL_EXPORTER_OTLP_HEADERS",
		"tracing: {sample_ratio: 2}":                               "tracing.sample_ratio: must be 0 to 1",
		"tracing: {queue: 1}":                                      "tracing.queue: must be 64 to 262144",
		"tracing: {endpint: 'http://c'}":                           "tracing.endpint",
	} {
		_, err := Load(Sources{Environ: home, File: file(t, text)})
		require.ErrorContains(t, err, want)
	}
}
