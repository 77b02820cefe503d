package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorsAreShown(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/errors": `{"from":"2026-01-02T11:00:00Z","to":"2026-01-02T12:00:00Z","by":"message","executions":32,"groups":[
		{"action_ref":"mypack.embed","code":"boom","type":"OSError","message":"row ‹n› is bad","n":31,"first":"2026-01-02T11:12:00Z","last":"2026-01-02T11:52:00Z",
		"example":"row 7 is bad","examples":["` + id1 + `"],"workers":[{"value":"n1/go/3","n":30},{"value":"n1/go/4","n":1}]}],
		"left":2,"more":"unsearched","searched_to":{"at":"2026-01-02T11:05:00Z","seq":7,"walked":20000}}`})
	r := s.call(t, "errors", "--since", "2026-01-02T11:00:00Z", "--by", "message", "--pool", "go")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, s.asked[len(s.asked)-1], "by=message&from=2026-01-02T11%3A00%3A00Z&limit=50&pool=go")
	require.Regexp(t, `(?m)^31 .* mypack.embed +boom +n1/go/3 ×30, n1/go/4 ×1 +`+id1+` +row ‹n› is bad$`, r.out)
	require.Contains(t, r.out, "2 more groups: -n shows them\nlooked at 20000 executions, back to what was requested at 2026-01-02 ")
	require.Contains(t, s.call(t, "errors", "-o", "json").out, `"searched_to"`)
	require.Equal(t, "none\n", serve(t, map[string]string{"GET /api/v1/errors": `{"groups":[],"more":"end"}`}).call(t, "errors").out)
}

// The verb takes every filter that the console's page of errors has.
func TestErrorsAreFiltered(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/errors": `{"groups":[],"more":"end"}`})
	r := s.call(t, "errors", "--status", "failed,timed_out", "--label", "team=a", "--key", "k", "--id", "01a2", "--not-error", "boom", "--not-worker", "n1/go/1", "--not-label", "team=b")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, s.asked[len(s.asked)-1], "id_prefix=01a2&key=k&label=team%3Da&limit=50&not.error=boom&not.label=team%3Db&not.worker=n1%2Fgo%2F1&status=failed&status=timed_out")
}

// What ended in a time is a filter of lists, counts and operations. The time of the errors is that already.
func TestWhatEndedInATimeIsAskedFor(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/executions": `{"executions":[],"more":"end"}`, "GET /api/v1/facets": `{"fields":{},"exact":true}`,
		"POST /api/v1/bulk/preview": `{"preview":"` + id1 + `","by":{}}`})
	ended := []string{"--ended-since", "2026-01-02T11:00:00Z", "--ended-until", "2026-01-02T12:00:00+01:00"}
	for _, verb := range [][]string{{"list"}, {"facets"}, {"bulk", "retry", "--dry-run"}} {
		r := s.call(t, append(verb, "--ended-since", "2026-01-02T11:00:00Z", "--ended-until", "2026-01-02T14:00:00+01:00")...)
		require.Equal(t, 0, r.code, r.err)
		require.Regexp(t, `ended_from\W+2026-01-02T11(:|%3A)00(:|%3A)00Z.*ended_to\W+2026-01-02T13(:|%3A)00(:|%3A)00Z`, s.asked[len(s.asked)-1])
		require.Contains(t, s.call(t, append(verb, ended...)...).err, "--ended-since 2026-01-02T11:00:00Z is not before --ended-until 2026-01-02T12:00:00+01:00")
		require.Contains(t, s.call(t, append(verb, "--ended-since", "noon")...).err, `--ended-since "noon" must be a time`)
	}
	require.Contains(t, s.call(t, append([]string{"errors"}, ended...)...).err, "unknown flag: --ended-since")
}

func TestOneActionAndOneNodeAreShown(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/actions": `{"actions":[{"ref":"core.echo"},{"ref":"core.sleep"}]}`,
		"GET /api/v1/nodes":   `{"nodes":[{"name":"n1","incarnation":"` + id1 + `"},{"name":"n2","incarnation":"` + id2 + `"}]}`,
	})
	for _, args := range [][]string{{"actions", "core.sleep"}, {"nodes", "n2"}, {"nodes", id2}} {
		r := s.call(t, args...)
		require.Equal(t, 0, r.code, r.err)
		require.Equal(t, 2, strings.Count(r.out, "\n"), r.out)
		require.Regexp(t, `core.sleep|n2`, r.out)
	}
	require.Contains(t, s.call(t, "actions", "core.nope").err, "there is no action \"core.nope\"")
	require.Contains(t, s.call(t, "nodes", "n3").err, "there is no node \"n3\"")
	require.Contains(t, s.call(t, "actions", "a", "b").err, "\"b\" is one argument too many")
}
