package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/alerts"
)

// Findings are answered while the store is away, and an empty answer has empty lists.
func TestFindingsAreAnswered(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	w := ask(t, h, "GET", "/api/v1/findings", "")
	require.Equal(t, 200, w.Code)
	require.JSONEq(t, `{"findings":[],"not_evaluated":[]}`, w.Body.String())
	since := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	b.found = Findings{
		At: since.Add(time.Minute), Unknown: []string{"clock_skew"}, Unreached: []view.Unreached{{Node: "b", Why: "it is lost"}},
		Findings: []alerts.Finding{{Name: "store_away", Severity: alerts.Critical, Kind: "node", Subject: "a", Since: since, Message: "Node a: the store does not answer"}},
	}
	got := read[Findings](t, ask(t, h, "GET", "/api/v1/findings", ""), 200)
	require.Equal(t, b.found, got)
}
