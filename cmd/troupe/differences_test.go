package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDifferencesAreShown(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/differences": `{"from":"2026-01-02T11:00:00Z","to":"2026-01-02T12:00:00Z","before":"2026-01-02T10:00:00Z","until":"2026-01-02T11:59:48Z",
		"differences":[{"of":"error","subject":"a.b","code":"boom","what":"failed","unit":"n","value":31,"before":0,"weight":95,"text":"a.b failed with boom"},
		{"of":"action","subject":"a.b","what":"failed_share","unit":"share","value":0.125,"before":0.01,"weight":57,"text":"a.b failed, of those that ended"},
		{"of":"action","subject":"a.b","what":"run_p95","unit":"ms","value":3200,"before":400,"weight":53,"text":"a.b ran for, 95 % at most"},
		{"of":"pool","subject":"go","what":"workers_busy","unit":"s","value":600,"before":12,"weight":40,"text":"pool go: workers busy"}],
		"left":3,"notes":["sessions are not compared"]}`})
	r := s.call(t, "differences", "--since", "2026-01-02T11:00:00Z", "--until", "2026-01-02T12:00:00Z")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, s.asked[0], "from=2026-01-02T11%3A00%3A00Z&to=2026-01-02T12%3A00%3A00Z")
	require.Regexp(t, `^WHAT +VALUE +BEFORE\na.b failed with boom +31 +0\na.b failed, of those that ended +12.5 % +1.0 %\na.b ran for, 95 % at most +≈3.2s +≈400ms\n`+
		`pool go: workers busy +10m00s +12.0s\n\nFrom 2026-01-02 .* before from 2026-01-02 .*\n3 lighter differences are left out.\nNote: sessions are not compared.\n$`, r.out)
	require.Contains(t, s.call(t, "differences", "-o", "json").out, `"weight"`)
	require.Contains(t, s.asked[len(s.asked)-1], "from=", "the last hour")
	require.Equal(t, 2, s.call(t, "differences", "--since", "x").code)
}
