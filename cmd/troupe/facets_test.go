package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFacetsAreShown(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/facets": `{"basis":"list","exact":false,"executions":20000,"share":0.25,
		"fields":{"label.team":[{"value":"a","n":7}],"status":[{"value":"failed","n":19000},{"value":"timed_out","n":1000}]},"left":{"label.team":3},
		"searched_to":{"at":"2026-01-02T11:05:00Z","seq":7,"walked":20000}}`})
	r := s.call(t, "facets", "--status", "failed,timed_out", "--by", "status,label.team", "--pool", "go", "--since", "2026-01-02T11:00:00Z")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, s.asked[len(s.asked)-1], "fields=status&fields=label.team&from=2026-01-02T11%3A00%3A00Z&limit=20&pool=go&status=failed&status=timed_out")
	require.Regexp(t, `(?m)^status +failed +≈19000\nstatus +timed_out +≈1000\nlabel.team +a +≈7\nlabel.team +… and 3 more`, r.out)
	require.Contains(t, r.out, "20000 executions are counted, back to what was requested at 2026-01-02 ")
	require.Contains(t, r.out, ", 25 % of the time; there may be more")
	require.Contains(t, s.call(t, "facets", "-o", "json").out, `"searched_to"`)
	r = serve(t, map[string]string{"GET /api/v1/facets": `{"basis":"minutes","executions":9,"fields":{"pool":[{"value":"go","n":9}]}}`}).call(t, "facets")
	require.Contains(t, r.out, "Added up by minute: 9 executions that ended")
	r = serve(t, map[string]string{"GET /api/v1/facets": `{"basis":"list","exact":true,"executions":2,"fields":{"pool":[{"value":"go","n":2}]}}`}).call(t, "facets")
	require.Regexp(t, `(?m)^pool +go +2$`, r.out)
	require.Contains(t, r.out, "All 2 executions are counted.")
}
