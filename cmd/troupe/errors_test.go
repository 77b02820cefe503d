package main

import (
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
