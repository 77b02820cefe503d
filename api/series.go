package api

import (
	"net/http"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
)

// Bounds of a series' query.
const (
	seriesDefault = time.Hour
	seriesMax     = 92 * 24 * time.Hour
	pointsDefault = 60
)

func seriesRoutes() []*route {
	return []*route{
		{method: "GET", path: "/api/v1/series", scope: ScopeRead, group: "executions", params: []param{
			{name: "from", kind: "string", help: "From this time on, as 2030-01-31T08:00:00Z; an hour before to where left out."},
			{name: "to", kind: "string", help: "Before this time; now where left out."},
			{name: "by", kind: "string", help: "What has a line each: " + words(rollup.MetricEnded.Fields()) + "; status where left out. Of slots: " + words(rollup.MetricSlots.Fields()) + ". Of busy and waiting: " + words(rollup.MetricBusy.Fields()) + "."},
			{name: "metric", kind: "string", help: "What is shown: " + words(rollup.Metrics()) + "; ended where left out."},
			{name: "pool", kind: "string", many: true, help: "Only this pool" + oneOfSeveral},
			{name: "action", kind: "string", many: true, help: "Only this action" + oneOfSeveral},
			{name: "points", kind: "integer", help: "At most so many points, 1 to 600; 60 where left out."}},
			summary: "How many executions were submitted and ended over time, how long they waited and ran, and what the workers were.",
			result:  rollup.Series{}, handle: (*server).series},
		{method: "GET", path: "/api/v1/ledger", scope: ScopeRead, group: "executions", params: []param{
			{name: "from", kind: "string", help: "From this minute on, as 2030-01-31T08:00:00Z; an hour before to where left out."},
			{name: "to", kind: "string", help: "Up to the end of this minute; now where left out."}},
			summary: "What became of the executions that were requested in a time, and whether any is missing.",
			result:  rollup.Ledger{}, handle: (*server).ledger},
	}
}

// words joins the words that a parameter takes.
func words[T ~string](list []T) string { return messages.Alternatives(list) }

func (s *server) series(c *call) error {
	q, err := seriesQuery(c.query, s.Now())
	if err != nil {
		return err
	}
	series, err := s.Backend.Series(c.r.Context(), q)
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, series)
}

func (s *server) ledger(c *call) error {
	from, to, err := c.query.span(s.Now(), seriesDefault, seriesMax)
	if err != nil {
		return err
	}
	ledger, err := s.Backend.Ledger(c.r.Context(), from, to)
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, ledger)
}

func seriesQuery(q query, now time.Time) (r rollup.Query, err error) {
	if r.From, r.To, err = q.span(now, seriesDefault, seriesMax); err != nil {
		return r, err
	}
	if r.Points, err = q.number("points", 1, rollup.PointsMax, pointsDefault); err != nil {
		return r, err
	}
	if r.Pools, err = q.several("pool"); err != nil {
		return r, err
	}
	if r.Actions, err = q.several("action"); err != nil {
		return r, err
	}
	if r.Metric, err = word(q, "metric", rollup.Metrics()); err != nil {
		return r, err
	}
	if r.By, err = word(q, "by", r.Metric.Fields()); err != nil {
		return r, err
	}
	if r.Metric.Sampled() && len(r.Actions) > 0 {
		return r, invalid("%s is of pools, and not of an action", r.Metric)
	}
	return r, nil
}

// span reads the parameters from and to. Without to it ends now, and without from it is as long as otherwise.
func (q query) span(now time.Time, otherwise, most time.Duration) (from, to time.Time, err error) {
	if to, err = q.moment("to"); err != nil {
		return from, to, err
	}
	if to.IsZero() {
		to = now.UTC()
	}
	if from, err = q.moment("from"); err != nil {
		return from, to, err
	}
	if from.IsZero() {
		from = to.Add(-otherwise)
	}
	if length := to.Sub(from); length <= 0 || length > most {
		return from, to, invalid("from must be before to, by at most %d days", most/(24*time.Hour))
	}
	return from, to, nil
}

// word reads a parameter that takes one of a few words. A missing one gives the first.
func word[T ~string](q query, name string, of []T) (T, error) {
	text := q.text(name)
	if text == "" {
		return of[0], nil
	}
	if !slices.Contains(of, T(text)) {
		return "", invalid("%s must be %s, got %q", name, words(of), clip(text))
	}
	return T(text), nil
}
