package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASessionIsShownAndEnded(t *testing.T) {
	t.Parallel()
	inc := "0190a1b2-0000-7000-8000-000000000001"
	row := `{"pool":"py.lab","session":"a/b c","epoch":3,"worker":{"incarnation":"` + inc + `","pool":"py.lab","slot":1},"finished_epoch":3,"runs":7}`
	s := serve(t, map[string]string{
		"GET /api/v1/sessions/py.lab/a/b c": row[:len(row)-1] + `,"execution":"` + id1 + `","queue_more":true,"queue":[{"execution":"` + id1 + `","action_ref":"core.echo","status":"running","priority":5,"worker":"n1/py.lab/1"}],
			"journal":[{"at":"2026-01-02T11:00:00Z","kind":"session","subject":"py.lab/a/b c","what":"unbound","reason":"worker_gone"}]}`,
		"DELETE /api/v1/sessions/py.lab/a/b c": `{"pool":"py.lab","session":"a/b c","epoch":3}`,
		"DELETE /api/v1/sessions/py.lab/busy":  `!409{"error":{"code":"session_busy","message":"session busy of pool py.lab is not idle"}}`,
		"GET /api/v1/nodes":                    `{"nodes":[{"name":"n1","incarnation":"` + inc + `"}]}`,
	})
	r := s.call(t, "sessions", "get", "py.lab/a/b c")
	require.Zero(t, r.code, r.err)
	require.Regexp(t, `(?s)POOL +SESSION +WORKER +EPOCH +IDLE +EXECUTION\n.*py.lab +a/b c +n1/py.lab/1 +3 .*`+id1, r.out)
	require.Regexp(t, `(?m)^`+id1+` +core.echo +running +5 .* n1/py.lab/1$`, r.out)
	require.Contains(t, r.out, "… and more behind them")
	require.Regexp(t, `(?m) unbound +worker_gone *$`, r.out)
	r = s.call(t, "sessions", "get", "py.lab/a/b c", "-o", "json")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.out, `"worker": "n1/py.lab/1"`)
	require.Contains(t, r.out, id1)
	r = s.call(t, "sessions", "end", "py.lab/a/b c")
	require.Equal(t, result{0, "session py.lab/a/b c has ended\n", ""}, r)
	require.Contains(t, s.asked, "DELETE /api/v1/sessions/py.lab/a%2Fb%20c")
	require.Zero(t, s.call(t, "sessions", "end", "py.lab/a/b c", "--reason", "it is stuck").code)
	require.Equal(t, `DELETE /api/v1/sessions/py.lab/a%2Fb%20c {"reason":"it is stuck"}`, s.asked[len(s.asked)-1])
	r = s.call(t, "sessions", "end", "py.lab/busy")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "session_busy")
}

// Programs get the worker's id as every other call takes it, and the key that the store has beside it.
func TestSessionsAsJSONNameTheirWorkers(t *testing.T) {
	t.Parallel()
	inc := "0190a1b2-0000-7000-8000-000000000001"
	s := serve(t, map[string]string{
		"GET /api/v1/sessions": `{"sessions":[{"pool":"py.lab","session":"a","epoch":3,"worker":{"incarnation":"` + inc + `","pool":"py.lab","slot":1},"finished_epoch":3,"runs":7},` +
			`{"pool":"py.lab","session":"free","epoch":1,"finished_epoch":1,"runs":1}],"next_cursor":"abc"}`,
		"GET /api/v1/nodes": `{"nodes":[{"name":"n1","incarnation":"` + inc + `"}]}`,
	})
	r := s.call(t, "sessions", "--name", "user-", "--pool", "py.lab", "-o", "json")
	require.Zero(t, r.code, r.err)
	require.Contains(t, s.asked, "GET /api/v1/sessions?limit=100&pool=py.lab&q=user-")
	require.Zero(t, s.call(t, "sessions", "--pool", "a", "--pool", "b", "--not-pool", "c", "--name", "x", "--not-name", "xy", "--unbound").code)
	require.Contains(t, s.asked, "GET /api/v1/sessions?limit=100&not.bound=1&not.pool=c&not.q=xy&pool=a&pool=b&q=x")
	var v struct {
		Sessions []struct {
			Session string         `json:"session"`
			Worker  string         `json:"worker"`
			Key     map[string]any `json:"worker_key"`
			Runs    int            `json:"runs"`
		} `json:"sessions"`
		Next string `json:"next_cursor"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &v), r.out)
	require.Equal(t, "n1/py.lab/1", v.Sessions[0].Worker)
	require.Equal(t, inc, v.Sessions[0].Key["incarnation"])
	require.Equal(t, 7, v.Sessions[0].Runs)
	require.Empty(t, v.Sessions[1].Worker)
	require.Equal(t, "abc", v.Next)
}
