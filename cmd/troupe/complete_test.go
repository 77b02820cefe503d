package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCompletionOffersWhatTheNodeKnows asks as the shell's completion script does.
func TestCompletionOffersWhatTheNodeKnows(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/actions":    `{"actions":[{"ref":"core.echo"},{"ref":"core.sleep"}]}`,
		"GET /api/v1/executions": `{"executions":[` + execution(id1, "running", "") + `]}`,
		"GET /api/v1/workers":    `{"workers":[{"id":"n1/go/0","state":"ready"}]}`,
		"GET /api/v1/pools":      `{"pools":[{"name":"go"}]}`,
		"GET /api/v1/nodes":      `{"nodes":[{"name":"n1"}]}`,
		"GET /api/v1/sessions":   `{"sessions":[{"pool":"py.lab","session":"alice"}]}`,
	})
	for _, c := range []struct{ line, want string }{
		{"submit core.e", "core.echo"}, {"get ", id1}, {"logs -f ", id1}, {"cancel " + id1 + " ", id1},
		{"workers ", "n1/go/0"}, {"worker kill ", "n1/go/0"}, {"cordon ", "pool"}, {"cordon pool ", "go"}, {"cordon node ", "n1"},
		{"uncordon worker ", "n1/go/0"}, {"drain ", "n1"}, {"tree --node ", "n1"}, {"dr", "drain"}, {"sessions ", "end"}, {"sessions end ", "py.lab/alice"},
		{"sessions get ", "py.lab/alice"}, {"submit --prio", "--priority"},
	} {
		r := s.call(t, append([]string{"__complete"}, strings.Split(c.line, " ")...)...)
		require.Zero(t, r.code, r.err)
		require.Contains(t, r.out, c.want, c.line)
	}
	require.NotContains(t, s.call(t, "__complete", "get", id1, "").out, id1, "get takes one id")
	s.Close()
	require.Equal(t, ":4\n", s.call(t, "__complete", "submit", "").out, "no node, no names")
}

// TestEveryViewIsJSONForPrograms looks at the verbs that print more than what the API answered.
func TestEveryViewIsJSONForPrograms(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/pools":      `{"pools":[{"name":"go","workers":1}]}`,
		"GET /readyz":            `{"ready":true}`,
		"GET /api/v1/executions": `{"executions":[]}`,
	})
	data := t.TempDir()
	for _, c := range []struct {
		line string
		want map[string]any
	}{
		{"top -o json", map[string]any{"server": s.URL, "running": []any{}}},
		{"migrate -o json --data " + data, map[string]any{"path": data + "/troupe.db", "up_to_date": true}},
		{"migrate -o json --status --data " + data, map[string]any{"up_to_date": false}},
	} {
		r := s.call(t, strings.Split(c.line, " ")...)
		require.Zero(t, r.code, r.err)
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(r.out), &v), r.out)
		for key, want := range c.want {
			require.Equal(t, want, v[key], c.line)
		}
	}
}
