package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALedgerIsShown(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/ledger": `{"from":"2026-01-02T12:00:00Z","to":"2026-01-02T12:10:00Z","accepted":16,"retries":1,
		"ended":[{"status":"completed","n":10}],"open":[{"status":"running","n":2}],"repeated":3,"sessions_restored":{"n":2},"sessions_lost":{"n":1},"taken_back":5,"state_lost":0,"purged":4,"counted":16,"missing":0,"adds_up":true}`})
	r := s.call(t, "ledger", "--since", "2026-01-02T12:00:00Z", "--until", "2026-01-02T12:10:00Z")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `^EXECUTIONS +N\naccepted +16\n +completed +10\n +running +2\n +purged +4\ncounted by nodes +16\nmissing +0\nretries of others +1\n`+
		`interrupted by a worker's end +3\ntaken back, not claimed since +5\n`+
		`times that a session's state was restored +2\nruns that met a session's lost state +1\n\nRequested from 2026-01-02 .* to .*\. It adds up: none is missing\.\n$`, r.out)
	require.Contains(t, s.asked[0], "from=2026-01-02T12")

	s = serve(t, map[string]string{"GET /api/v1/ledger": `{"from":"2026-01-02T12:00:00Z","to":"2026-01-02T12:10:00Z","until":"2026-01-02T12:10:00Z","accepted":0,
		"ended":[],"open":[],"purged_from":"2026-01-02T12:05:00Z","counted":2,"missing":2,"adds_up":false,"rest":{"from":"2026-01-02T12:10:00Z","to":"2026-01-02T13:00:00Z","submitted":812},
		"notes":["some were deleted"]}`})
	r = s.call(t, "ledger", "--since", "2026-01-02T12:00:00Z")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "It does not add up.")
	require.Regexp(t, ` +purged +unknown\n`, r.out)
	require.Contains(t, r.out, "Ask again with --since 2026-01-02T12:10:00Z")
	require.Contains(t, r.out, "about 812 that were submitted from 2026-01-02")
	require.Contains(t, r.out, "Note: some were deleted.")
	require.Contains(t, r.err, "2 executions are missing")

	s = serve(t, map[string]string{"GET /api/v1/ledger": `{"from":"2026-01-02T12:00:00Z","to":"2026-01-02T12:00:00Z","until":"2026-01-02T12:01:00Z","accepted":0,
		"ended":[],"open":[],"counted":0,"missing":0,"adds_up":true,"rest":{"from":"2026-01-02T12:00:00Z","to":"2026-01-02T13:00:00Z","submitted":812}}`})
	r = s.call(t, "ledger", "--since", "2026-01-02T12:00:00Z")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "Nothing is compared.")
	require.NotContains(t, r.out, "adds up")
}
