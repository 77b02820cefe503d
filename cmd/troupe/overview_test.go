package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheOverviewIsShown(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/overview": `{"at":"2026-01-02T12:00:00Z","me":{},"readiness":{"ready":true},"nodes":[],
		"findings":{"at":"2026-01-02T12:00:00Z","findings":[{"name":"pool_broken","subject":"models","severity":"critical","since":"2026-01-02T11:56:00Z","message":"Pool models: its workers keep failing to start"}],"not_evaluated":[]},
		"totals":{"workers":6,"busy":3,"waiting":1204,"not_due":4,"waiting_more":true,"placed":1,"running":3},
		"pools":[{"name":"go","workers":4,"busy":3,"waiting":1204,"not_due":4,"waiting_more":true,"running":3,"oldest_waiting":"2026-01-02T11:57:00Z","rates":{"submitted":500,"ended":412.3,"failed":0.021,"run_p95_ms":861.1}},
			{"name":"models","workers":2,"broken":true}],
		"counts":{"from":"2026-01-02T11:54:00Z","to":"2026-01-02T11:59:00Z","rates":{"submitted":500,"ended":412.3,"failed":0.021,"wait_p95_ms":12.2,"run_p95_ms":861.1},
			"range":{"from":"2026-01-02T11:00:00Z","to":"2026-01-02T12:00:00Z","before":"2026-01-02T10:00:00Z"},"outcomes":{"series":[]},"failures":[{"action_ref":"mypack.embed","code":"boom","n":31,"before":0,"first":"2026-01-02T11:12:00Z","last":"2026-01-02T11:58:00Z"}],
			"slower":[{"action_ref":"mypack.embed","n":40,"p95_ms":12000,"before_ms":3000}]},
		"unreached":[{"node":"c","incarnation":"01a1feab-5d86-7105-9159-7b83bc0030fb","why":"it is lost"}]}`})
	r := s.call(t, "overview")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `^critical since 2026-01-02 \S+: Pool models: its workers keep failing to start\nwithout node c: it is lost\n`, r.out)
	require.Contains(t, r.out, "waiting 1200+, not due 4, placed 1, running 3, workers busy 3 of 6\nsubmitted 500/s, ended 412/s, failed 0.021/s, wait p95 ≈12ms, run p95 ≈861ms (2026-01-02 ")
	require.Regexp(t, `(?m)^go +ok +4 +3 +1200\+ +2026-01-02 \S+ +3 +412 +0.021 +≈861ms$`, r.out)
	require.Regexp(t, `(?m)^models +broken +2 `, r.out)
	require.Regexp(t, `(?m)^mypack.embed +boom +31 +0 +2026-01-02 `, r.out)
	require.Regexp(t, `(?m)^mypack.embed +40 +≈12.0s +≈3.0s$`, r.out)
	require.Regexp(t, `(?m)^From 2026-01-02 .* to 2026-01-02 .*, before from 2026-01-02 .*:\nFAILED +CODE +N +BEFORE +FIRST +LAST$`, r.out)
	require.NotContains(t, s.asked[0], "?")
	require.Equal(t, 0, s.call(t, "overview", "--since", "2026-01-02T11:00:00Z").code)
	require.Contains(t, s.asked[len(s.asked)-1], "overview?from=2026-01-02T11%3A00%3A00Z")
	require.Contains(t, s.call(t, "overview", "-o", "json").out, `"waiting_more": true`)

	r = serve(t, map[string]string{"GET /api/v1/overview": `{"at":"2026-01-02T12:00:00Z","findings":{"at":"2026-01-02T12:00:00Z","findings":[],"not_evaluated":[]},"pools":[],"nodes":[],
		"counts":{"from":"2026-01-02T11:54:00Z","to":"2026-01-02T11:59:00Z","rates":{},"outcomes":{"series":[]},"failures":[],"slower":[]},
		"missing":[{"part":"counts","why":"the store is away"}]}`}).call(t, "overview")
	require.Contains(t, r.out, "no rule of the alerts finds anything wrong\nwithout counts: the store is away\n")
	require.Contains(t, r.out, "wait p95 -, run p95 - (", "nothing was counted")

	r = serve(t, map[string]string{"GET /api/v1/overview": `{"at":"2026-01-02T12:00:00Z","pools":[],"nodes":[],
		"findings":{"at":"2026-01-02T12:00:00Z","since":"2026-01-02T11:58:00Z","findings":[],"not_evaluated":[],"judged_in_part":["dlq_rate","store_slow"]}}`}).call(t, "overview")
	require.NotContains(t, r.out, "not ready")
	require.Regexp(t, `(?m)^this node judges since 2026-01-02 \S+; 2 of the rules look further back, and a node that has run for longer may find more$`, r.out)

	r = serve(t, map[string]string{"GET /api/v1/overview": `{"at":"2026-01-02T12:00:00Z","nodes":[],"findings":{"at":"2026-01-02T12:00:00Z","findings":[],"not_evaluated":[]},
		"readiness":{"ready":false,"waits_for":["broker: refused"],"waits":[{"for":"broker: refused","since":"2026-01-02T11:59:50Z","what_to_do":"Check that it runs."}]},
		"pools":[{"name":"go","workers":4,"ready":4,"halted":"broker_away","reason":"the broker is not connected"},{"name":"models","workers":2,"ready":2,"halted":"broker_away","cordoned":true}]}`}).call(t, "overview")
	require.Regexp(t, `^this node is not ready since 2026-01-02 \S+: it waits for broker: refused\n  what to do: Check that it runs.\nno rule of the alerts`, r.out)
	require.Regexp(t, `(?m)^go +broker away +4 `, r.out)
	require.Regexp(t, `(?m)^models +cordoned +2 `, r.out)

	r = serve(t, map[string]string{"GET /api/v1/overview": `{"at":"2026-01-02T12:00:00Z","nodes":[],"findings":{"at":"2026-01-02T12:00:00Z","findings":[],"not_evaluated":[]},
		"pools":[{"name":"go","workers":4,"ready":4},{"name":"idle"},{"name":"half","workers":4,"ready":2,"reason":"on node b: no module named x"},
			{"name":"models","workers":2,"broken":true,"reason":"no module named y"},{"name":"late","workers":2}]}`}).call(t, "overview")
	require.Regexp(t, `^pool half has a problem: on node b: no module named x\npool models is broken: no module named y\npool late has no worker that takes work\nwaiting `, r.out)
}
