package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheFleetIsShownAsLetters(t *testing.T) {
	t.Parallel()
	const a, b = "01930000-0000-7000-8000-00000000000a", "01930000-0000-7000-8000-00000000000b"
	s := serve(t, map[string]string{"GET /api/v1/fleet": `{"at":"2026-01-02T11:00:00Z","partial":true,"notes":["node b stored no keyframe"],
		"nodes":[{"incarnation":"` + a + `","name":"a","state":"active","cordoned":true},{"incarnation":"` + b + `","name":"b","state":"late"}],
		"pools":[{"incarnation":"` + a + `","node":"a","name":"go","slots":"uuud","grades":"hhhd","generations":[1,1,1,1],"cordoned":true,"mode":"leading","bound":3}]}`})
	r := s.call(t, "fleet", "--at", "2026-01-02T12:00:00+01:00")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, s.asked[len(s.asked)-1], "/api/v1/fleet?at=2026-01-02T11%3A00%3A00Z")
	require.Regexp(t, `(?m)^go cordoned +a +active cordoned +leading +3 +u\(3\)d\n +b +late`, plain(r.out))
	require.Contains(t, r.out, "Not known: node b stored no keyframe.")
	require.Contains(t, s.call(t, "fleet", "-o", "json").out, `"slots": "uuud"`)
	require.NotContains(t, s.asked[len(s.asked)-1], "at=")
	require.NotEqual(t, 0, s.call(t, "fleet", "--at", "yesterday").code)
}
