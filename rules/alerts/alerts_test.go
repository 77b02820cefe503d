package alerts_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/alerts"
)

var update = flag.Bool("update", false, "write the rendered files anew")

const (
	file = "../../deploy/prometheus/troupe-alerts.yaml"
	page = "../../docs/alerts.md"
	head = "<!-- alerts: rendered from the code -->\n"
	end  = "<!-- alerts: end -->\n"
)

// After a change of the table: go test ./rules/alerts -update.
func TestFilesAreRenderedFromTheTable(t *testing.T) {
	t.Parallel()
	rules := alerts.Rules()
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(raw), head)
	require.True(t, found)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found)
	wanted := map[string]string{file: alerts.Prometheus(rules), page: before + head + alerts.Runbook(rules) + end + after}
	for path, text := range wanted {
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		there, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(there), path)
	}
}

func TestRulesAreTold(t *testing.T) {
	t.Parallel()
	known, last := map[string]bool{}, ""
	for _, r := range alerts.Rules() {
		require.False(t, known[r.Key()], "%s stands twice", r.Key())
		require.False(t, known[r.Name+" any"] && last != r.Name, "the rules of %s stand together", r.Name)
		known[r.Key()], known[r.Name+" any"], last = true, true, r.Name
		require.Regexp(t, `^[a-z_]+$`, r.Name)
		for what, text := range map[string]string{"summary": r.Summary, "meaning": r.Means, "remedy": r.Do} {
			require.NotEmpty(t, text, "%s has no %s", r.Key(), what)
		}
		require.NotContains(t, r.Named("x", "7"), "{value}")
		if r.Subject != alerts.Cluster {
			require.Contains(t, r.Named("x", "7"), " x: ")
		}
	}
}

func TestALimitIsNotBad(t *testing.T) {
	t.Parallel()
	for _, r := range alerts.Rules() {
		switch r.Bad {
		case alerts.Above:
			require.False(t, r.Breaks(r.Limit), r.Key())
			require.True(t, r.Breaks(r.Limit+0.001), r.Key())
		case alerts.Is:
			require.True(t, r.Breaks(r.Limit), r.Key())
			require.False(t, r.Breaks(1-r.Limit), r.Key())
		}
		require.Contains(t, r.Expression(), string(r.Bad), r.Key())
	}
}

// What becomes of running work depends on whether the other nodes reach the store: see package membership.
func TestALostStoreIsToldForOneNodeAndForAll(t *testing.T) {
	t.Parallel()
	rule := named(t, "store_away")
	require.Contains(t, rule.Means, "If other nodes still reach the store")
	require.Contains(t, rule.Means, "If the store is away for all nodes, running work goes on, for up to `store.outage_grace`")
	require.NotContains(t, rule.Means, "lease")
}
