package api

import (
	"context"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/rules/differences"
)

// differencesMax is the longest range that is compared: counts by the hour are kept for 90 days, and of that there must be two.
const differencesMax = 45 * 24 * time.Hour

func differencesRoute() *route {
	return &route{method: "GET", path: "/api/v1/differences", scope: ScopeRead, group: "nodes", params: []param{
		{name: "from", kind: "string", help: "From this minute on, as 2030-01-31T08:00:00Z; an hour before to where left out."},
		{name: "to", kind: "string", help: "Up to the end of this minute; now where left out."}},
		summary: "What is different in a time from the same length before it: errors, actions, versions, pools, workers, nodes, servers and commands.",
		result:  differences.Differences{}, handle: (*server).differences}
}

func (s *server) differences(c *call) error {
	from, to, err := c.query.span(s.Now(), seriesDefault, differencesMax)
	if err != nil {
		return err
	}
	d, err := s.compared.get(c.r.Context(), spanName(from, to), func(ctx context.Context) (*differences.Differences, error) {
		return s.Backend.Differences(ctx, from, to)
	})
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, d)
}

// spanName names a range by its minutes, which is what is counted by.
func spanName(from, to time.Time) string {
	return from.Truncate(time.Minute).Format(time.RFC3339) + " " + to.Truncate(time.Minute).Format(time.RFC3339)
}
