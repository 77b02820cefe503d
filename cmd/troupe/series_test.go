package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSeriesAreShown(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/series": `{"from":"2026-01-02T12:00:00Z","step_seconds":300,"until":"2026-01-02T12:12:04Z","series":[
		{"key":"completed","n":[3,0,40]},{"key":"failed","n":[0,0,2]}]}`})
	r := s.call(t, "series", "--since", "2026-01-02T12:00:00Z", "--until", "2026-01-02T12:15:00Z", "--points", "3")
	require.Equal(t, 0, r.code, r.err)
	asked, err := url.Parse(strings.TrimPrefix(s.asked[0], "GET "))
	require.NoError(t, err)
	require.Equal(t, url.Values{
		"by": {"status"}, "metric": {"ended"}, "points": {"3"}, "from": {"2026-01-02T12:00:00Z"}, "to": {"2026-01-02T12:15:00Z"},
	}, asked.Query())
	require.Regexp(t, `^FROM +STATUS +ENDED\n2026-01-02 \S+ +completed +3\n2026-01-02 \S+ +completed +40\n2026-01-02 \S+ +failed +2\n`+
		`\nEach line is of 5m0s\. Known up to 2026-01-02 `, r.out)
	require.Contains(t, s.call(t, "series", "--since", "2026-01-02T12:00:00Z", "-o", "json").out, `"step_seconds": 300`)

	s = serve(t, map[string]string{"GET /api/v1/series": `{"from":"2026-01-02T12:00:00Z","step_seconds":60,"until":"2026-01-02T12:01:00Z","series":[
		{"key":"a.b","n":[3],"p50":[0.5],"p95":[12.3],"p99":[2100]}]}`})
	r = s.call(t, "series", "--since", "2026-01-02T12:00:00Z", "--by", "action", "--metric", "run")
	require.Regexp(t, `^FROM +ACTION +ENDED +P50 +P95 +P99\n2026-01-02 \S+ +a\.b +3 +500µs +12ms +2\.1s\n`, r.out)

	s = serve(t, map[string]string{"GET /api/v1/series": `{"from":"2026-01-02T12:00:00Z","step_seconds":300,"until":"2026-01-02T12:05:00Z","series":[{"key":"busy","n":[3]}]}`})
	r = s.call(t, "series", "--since", "2026-01-02T12:00:00Z", "--metric", "slots")
	require.Regexp(t, `^FROM +STATE +SLOTS\n2026-01-02 \S+ +busy +3\n`, r.out)
	require.Contains(t, s.asked[0], "by=state")

	r = s.call(t, "series", "--since", "2026-01-02T12:00:00Z", "--pool", "go", "--pool", "py", "--action", "a.b", "--action", "c,d")
	require.Equal(t, 0, r.code, r.err)
	asked, err = url.Parse(strings.TrimPrefix(s.asked[len(s.asked)-1], "GET "))
	require.NoError(t, err)
	require.Equal(t, [][]string{{"go", "py"}, {"a.b", "c,d"}}, [][]string{asked.Query()["pool"], asked.Query()["action"]}, "each is one of several")

	r = s.call(t, "series", "--since", "noon")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, `--since "noon" must be a time`)
}

// Lists of what has a time are asked for a range of it.
func TestOperationsAndWebhooksOfATime(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/operations": `{"operations":[]}`, "GET /api/v1/webhooks": `{"webhooks":[]}`})
	for verb, more := range map[string]url.Values{"operations": {"limit": {"20"}}, "webhooks": {"limit": {"50"}, "state": {"given_up"}}} {
		r := s.call(t, verb, "--since", "2026-01-02T12:00:00Z", "--until", "2026-01-02T13:00:00Z")
		require.Equal(t, 0, r.code, r.err)
		asked, err := url.Parse(strings.TrimPrefix(s.asked[len(s.asked)-1], "GET "))
		require.NoError(t, err)
		more["from"], more["to"] = []string{"2026-01-02T12:00:00Z"}, []string{"2026-01-02T13:00:00Z"}
		require.Equal(t, more, asked.Query())
		r = s.call(t, verb, "--since", "noon")
		require.Equal(t, 2, r.code)
		require.Contains(t, r.err, `--since "noon" must be a time`)
	}
}

func TestWhoTheCallerIs(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/me": `{"name":"ops","scopes":["submit","read","operate"],"via":"token","mode":"full","payloads":"show",
		"version":"0.1.0","build":"x","node":"a","store":"postgres"}`})
	r := s.call(t, "whoami")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `^NAME +BY +SCOPES +EXPIRES +NODE +VERSION +STORE\nops +token +submit,read,operate +a +0\.1\.0 +postgres\n$`, r.out)
	require.Contains(t, s.call(t, "whoami", "-o", "json").out, `"via": "token"`)
}

// Each command can say why it is given, and sends nothing where it does not.
func TestCommandsSayWhy(t *testing.T) {
	t.Parallel()
	const id = "019aa5c0-0000-7000-8000-000000000001"
	for path, args := range map[string][]string{
		"/api/v1/executions/" + id + "/cancel": {"cancel", id}, "/api/v1/executions/" + id + "/retry": {"retry", id},
		"/api/v1/workers/a/go/0/kill": {"worker", "kill", "a/go/0"}, "/api/v1/workers/a/go/0/cordon": {"worker", "cordon", "a/go/0"},
		"/api/v1/workers/a/go/0/uncordon": {"worker", "uncordon", "a/go/0"}, "/api/v1/workers/a/go/0/health": {"worker", "probe", "a/go/0"},
		"/api/v1/pools/go/cordon": {"cordon", "pool", "go"}, "/api/v1/nodes/a/uncordon": {"uncordon", "node", "a"},
		"/api/v1/nodes/a/drain": {"drain", "a"}, "/api/v1/reload": {"reload"},
		"/api/v1/dead-letters/7/requeue": {"dead-letters", "requeue", "7"}, "/api/v1/dead-letters/7/discard": {"dead-letters", "discard", "7"},
	} {
		s := serve(t, map[string]string{"POST " + path: `{}`})
		require.Equal(t, 0, s.call(t, args...).code, args)
		require.Equal(t, 0, s.call(t, append(args, "--reason", "disk is full")...).code, args)
		require.Equal(t, []string{"POST " + path, "POST " + path + ` {"reason":"disk is full"}`}, s.asked)
	}
}

// Flags of a list that are repeated are alternatives, and are asked for so by each verb that has them.
func TestAListHasAlternatives(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/executions": `{"executions":[]}`, "GET /api/v1/facets": `{"fields":{},"exact":true}`,
		"GET /api/v1/errors": `{"groups":[],"more":"end"}`, "POST /api/v1/bulk/preview": `{"preview":"` + id1 + `","by":{}}`})
	given := []string{"--action", "a.b", "--action", "c,d", "--pool", "go", "--pool", "py", "--session", "s", "--session", "t", "--worker", "n/go/0", "--worker", "n/go/1",
		"--error", "timeout", "--error", "boom"}
	want := url.Values{"action": {"a.b", "c,d"}, "pool": {"go", "py"}, "session": {"s", "t"}, "worker": {"n/go/0", "n/go/1"}, "error": {"timeout", "boom"}}
	for _, verb := range []string{"list", "facets", "errors"} {
		r := s.call(t, append([]string{verb}, given...)...)
		require.Equal(t, 0, r.code, r.err)
		asked, err := url.Parse(strings.TrimPrefix(s.asked[len(s.asked)-1], "GET "))
		require.NoError(t, err)
		for name, values := range want {
			require.Equal(t, values, asked.Query()[name], verb)
		}
	}
	r := s.call(t, append([]string{"bulk", "retry", "--dry-run"}, given...)...)
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, s.asked[len(s.asked)-1], `"action":["a.b","c,d"]`)
	require.Contains(t, s.asked[len(s.asked)-1], `"pool":["go","py"]`)
}

func TestAListLeavesOut(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/executions": `{"executions":[]}`})
	r := s.call(t, "list", "--not-status", "completed", "--not-status", "failed", "--not-action", "a.b", "--not-pool", "go", "--not-session", "s,1",
		"--not-worker", "n/go/0", "--not-error", "timeout", "--not-label", "team=a,b")
	require.Equal(t, 0, r.code, r.err)
	asked, err := url.Parse(strings.TrimPrefix(s.asked[0], "GET "))
	require.NoError(t, err)
	require.Equal(t, url.Values{
		"limit": {"20"}, "not.status": {"completed", "failed"}, "not.action": {"a.b"}, "not.pool": {"go"}, "not.session": {"s,1"},
		"not.worker": {"n/go/0"}, "not.error": {"timeout"}, "not.label": {"team=a,b"},
	}, asked.Query())
}
