package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/alerts"
)

// The courses of promtool have a value every 15 s, and it looks at the one of the 25th minute.
const (
	scrapeEvery = 15 * time.Second
	lookedAt    = int(25 * time.Minute / scrapeEvery)
)

var label = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)

// watched is what a node has watched after 25 minutes of the series.
func watched(t *testing.T, course scrape) *alerts.Watch {
	t.Helper()
	rules := alerts.Rules()
	series := alerts.AllSeries(rules)
	samples, courses := []alerts.Sample{}, [][]float64{}
	for name, values := range course {
		s := alerts.Sample{Labels: map[string]string{}}
		s.Name, _, _ = strings.Cut(name, "{")
		for _, m := range label.FindAllStringSubmatch(name, -1) {
			s.Labels[m[1]] = m[2]
		}
		samples, courses = append(samples, s), append(courses, expanded(t, values))
	}
	w, start := alerts.NewWatch(rules), time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	for i := range lookedAt + 1 {
		for j := range samples {
			samples[j].Value = courses[j][i]
		}
		w.Observe(start.Add(time.Duration(i)*scrapeEvery), []alerts.NodeReading{{Node: "a:7878", Readings: alerts.Read(series, samples)}})
	}
	return w
}

// expanded are the values of a course in promtool's notation: "0x2 1+2x2" is 0 0 0 1 3 5.
func expanded(t *testing.T, course string) (values []float64) {
	t.Helper()
	for part := range strings.FieldsSeq(course) {
		text, times, repeated := strings.Cut(part, "x")
		more := 0
		if repeated {
			n, err := strconv.Atoi(times)
			require.NoError(t, err, course)
			more = n
		}
		first, step := growth(text)
		v, err := strconv.ParseFloat(first, 64)
		require.NoError(t, err, course)
		grows, err := strconv.ParseFloat(step, 64)
		require.NoError(t, err, course)
		for i := range more + 1 {
			values = append(values, v+float64(i)*grows)
		}
	}
	require.Greater(t, len(values), lookedAt, course)
	return values
}

// growth splits a value and its growth: "0+10" is 0 and 10. The sign of an exponent is no growth.
func growth(text string) (first, step string) {
	for i := 1; i < len(text); i++ {
		if text[i] == '+' && text[i-1] != 'e' {
			return text[:i], text[i+1:]
		}
	}
	return text, "0"
}

// firing are the keys of the rules that fire for one subject, which is that of the cases.
func firing(w *alerts.Watch) []string {
	keys := []string{}
	for _, r := range alerts.Rules() {
		for _, subject := range w.Firing(&r) {
			if subject == map[alerts.Subject]string{alerts.Node: "a:7878", alerts.Pool: "go"}[r.Subject] {
				keys = append(keys, r.Key())
			} else {
				keys = append(keys, r.Key()+" for "+subject)
			}
		}
	}
	return keys
}

// expectValues has promtool compare the values of all measures with those that a node computed: how many there are, and their sum.
func expectValues(b *strings.Builder, w *alerts.Watch) {
	for _, r := range alerts.Rules() {
		total, count := 0.0, 0
		for _, v := range w.Values(&r) {
			total += v
			count++
		}
		query := "(" + r.Measure.PromQL() + ") >= 0" // what is no number is left out
		counted, summed := "[]", "[]"
		if count > 0 {
			counted, summed = fmt.Sprintf("[{labels: '{}', value: %d}]", count), "[{labels: '{}', value: 1}]"
		}
		fmt.Fprintf(b, "      - {eval_time: 25m, expr: '%s', exp_samples: %s}\n", "count("+query+")", counted)
		fmt.Fprintf(b, "      - {eval_time: 25m, expr: '%s', exp_samples: %s}\n", fmt.Sprintf("abs(sum(%s) - %v) < bool 1e-6", query, total), summed)
	}
}
