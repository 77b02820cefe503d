package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunsOfAWorkerAreShown(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/workers/n1/go/3/runs": `{"worker":"n1/go/3","source":"list","unsearched":true,"runs":[
		{"execution":"` + id1 + `","action_ref":"core.echo","status":"failed","code":"boom","attempt":2,"started_at":"2026-01-02T11:00:00Z","finished_at":"2026-01-02T11:00:03Z"}]}`})
	r := s.call(t, "worker", "runs", "n1/go/3")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `(?m)^`+id1+` +core.echo +failed +boom +2 .* 3.0s$`, r.out)
	require.Contains(t, r.out, "there may be more runs")
	require.Contains(t, s.call(t, "worker", "runs", "n1/go/3", "-o", "json").out, `"unsearched"`)
}

func TestAPoolIsShown(t *testing.T) {
	t.Parallel()
	pool := `{"name":"go","runtime":"go","nodes":2,"workers":5,"waiting":1200,"slots":[{"state":"ready","n":1},{"state":"terminated","n":4}],
		"failures":[{"worker":"n1/go/3","state":"terminated","generation":7,"restarts":6,"error":"exit status 1: no module boto"}],
		"queues":[{"node":"n1","mode":"leading","held":1100,"counted":1000,"by_priority":[{"priority":5,"n":10},{"priority":0,"n":990}],
			"by_cause":[{"reason":"workers_busy","message":"every worker of the pool that takes work is busy","n":1000}]}],`
	s := serve(t, map[string]string{"GET /api/v1/pools/go": pool + `"drain":{"waiting":1200,"in_per_second":2,"out_per_second":22,"from":"2026-01-02T11:00:00Z","to":"2026-01-02T11:05:00Z","seconds":60},
		"unreached":[{"node":"n2","why":"node n2 is silent"}]}`})
	r := s.call(t, "pool", "go")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `(?m)^ready +1\nterminated +4$`, r.out)
	require.Regexp(t, `(?m)^n1/go/3 +terminated +7 +6 +exit status 1: no module boto$`, r.out)
	require.Contains(t, r.out, "The router on node n1 holds 1100 due executions; 1000 of them are counted here.")
	require.Regexp(t, `(?m)^priority +5 +10 *\npriority +0 +990 *\ncause +workers_busy +1000 +every worker of the pool`, r.out)
	require.Contains(t, r.out, "1200 wait, which takes 1m")
	require.Contains(t, r.out, "2.00 a second were submitted and 22.00 a second ended.")
	require.Contains(t, r.err, "node n2 is silent")
	require.Contains(t, s.call(t, "pool", "go", "-o", "json").out, `"by_cause"`)
	r = serve(t, map[string]string{"GET /api/v1/pools/go": pool + `"drain":{"waiting":9,"in_per_second":2,"out_per_second":1},"waiting_more":true}`}).call(t, "pool", "go")
	require.Contains(t, r.out, "at least 9 wait, and at these rates they do not become fewer.")
	r = serve(t, map[string]string{"GET /api/v1/pools/go": pool + `"drain":{"waiting":0,"in_per_second":2,"out_per_second":1}}`}).call(t, "pool", "go")
	require.Contains(t, r.out, "\nNothing waits. From ")
	require.Contains(t, r.out, ", 2.00 a second were submitted and 1.00 a second ended.\n")
	require.NotContains(t, r.out, "fewer")
}
