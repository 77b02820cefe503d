package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	trace1 = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	trace2 = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

func TestGetShowsTheTrace(t *testing.T) {
	t.Parallel()
	path := "GET /api/v1/executions/"
	s := serve(t, map[string]string{
		path + id1: execution(id1, "completed", `,"trace":"`+trace1+`","trace_id":"0af7651916cd43dd8448eb211c80319c"`),
		path + id2: execution(id2, "completed", ""),
	})
	require.Regexp(t, `(?m)^trace_id +0af7651916cd43dd8448eb211c80319c$`, s.call(t, "get", id1).out)
	require.NotContains(t, s.call(t, "get", id2).out, "trace")
}

// A submission belongs to the trace that its flag names, else to that of the environment, as in a script that an execution runs.
func TestSubmitContinuesATrace(t *testing.T) {
	t.Parallel()
	var sent map[string]any
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		sent = nil
		require.NoError(t, json.Unmarshal(body, &sent))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(execution(id1, "requested", "")))
	}))
	t.Cleanup(s.Close)
	for name, c := range map[string]struct {
		env, args []string
		want      any
	}{
		"none":                       {nil, nil, nil},
		"of the flag":                {nil, []string{"--trace", trace1}, trace1},
		"of the environment":         {[]string{"TRACEPARENT=" + trace2, "TRACESTATE=a=1"}, nil, trace2 + " a=1"},
		"the flag goes first":        {[]string{"TRACEPARENT=" + trace2}, []string{"--trace", trace1}, trace1},
		"a wrong one of the machine": {[]string{"TRACEPARENT=nonsense"}, nil, nil},
	} {
		r := call(t, "", append(c.env, "TROUPE_SERVER="+s.URL), append([]string{"submit", "core.echo"}, c.args...)...)
		require.Zero(t, r.code, r.err)
		require.Equal(t, c.want, sent["trace"], name)
	}
	r := call(t, "", []string{"TROUPE_SERVER=" + s.URL}, "submit", "core.echo", "--trace", "nonsense")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "trace must be a W3C traceparent")
}
