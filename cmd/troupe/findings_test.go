package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindingsAreShown(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/findings": `{"at":"2026-01-02T12:00:00Z","findings":[
		{"name":"pool_broken","severity":"critical","kind":"pool","subject":"models","since":"2026-01-02T11:56:00Z","value":1,"message":"Pool models: its workers keep failing to start, on some node",
		"means":"Every worker failed.","what_to_do":"` + "`troupe pools`" + ` shows the last error.","link":"docs/alerts.md#pool_broken"}],
		"not_evaluated":["clock_skew"],"unreached":[{"node":"c","incarnation":"01a1feab-5d86-7105-9159-7b83bc0030fb","why":"it is lost"}]}`})
	r := s.call(t, "findings")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `^CRITICAL pool_broken for .*, since 2026-01-02 `, r.out)
	require.Contains(t, r.out, "  Pool models: its workers keep failing to start, on some node.\n  Every worker failed.\n  What to do: `troupe pools` shows the last error.\n  See docs/alerts.md#pool_broken\n\n")
	require.Regexp(t, `(?m)^Judged at 2026-01-02 \S+\.$`, r.out)
	require.Contains(t, r.out, "Not evaluated, because no node has their numbers: clock_skew.\nWithout the numbers of node c: it is lost.\n")
	require.Contains(t, s.call(t, "findings", "-o", "json").out, `"what_to_do"`)

	require.Contains(t, serve(t, map[string]string{
		"GET /api/v1/findings": `{"at":"2026-01-02T12:00:00Z","since":"2026-01-02T11:58:00Z","findings":[],"not_evaluated":[],"judged_in_part":["dlq_rate","store_slow"]}`}).call(t, "findings").out,
		"it started then. Rules that look further back, by which a node that has run for longer may find more: dlq_rate, store_slow.\n")
	require.Regexp(t, `^No rule finds anything wrong at 2026-01-02 `, serve(t, map[string]string{
		"GET /api/v1/findings": `{"at":"2026-01-02T12:00:00Z","findings":[],"not_evaluated":[]}`}).call(t, "findings").out)
	require.Equal(t, "The node has just started and has not judged the rules yet.\n", serve(t, map[string]string{
		"GET /api/v1/findings": `{"findings":[],"not_evaluated":[]}`}).call(t, "findings").out)
}
