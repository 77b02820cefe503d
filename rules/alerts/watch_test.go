package alerts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/rules/alerts"
)

var start = time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)

// course is a series of one node: its value at the start and what it grows by each 15 s.
type course struct {
	series, key  string
	value, grows float64
}

// after is what is watched of a node after so many values, 15 s apart.
func after(values int, courses ...course) *alerts.Watch {
	w := alerts.NewWatch(alerts.Rules())
	observe(w, 0, values, "a", courses...)
	return w
}

func observe(w *alerts.Watch, from, to int, node string, courses ...course) {
	for i := from; i < to; i++ {
		var read []alerts.Reading
		for _, c := range courses {
			read = append(read, alerts.Reading{Series: c.series, Values: map[string]float64{c.key: c.value + float64(i)*c.grows}})
		}
		w.Observe(start.Add(time.Duration(i)*alerts.Spacing), []alerts.NodeReading{{Node: node, Readings: read}})
	}
}

const (
	usable    = `troupe_workers_by_grade{grade=~"healthy|degraded"}`
	unhealthy = `troupe_workers_by_grade{grade="unhealthy"}`
	workers   = "troupe_workers_by_grade"
	ended     = "troupe_executions_total"
	buckets   = "troupe_store_transaction_seconds_bucket"
)

// watchCases has a course for each rule by which it fires, and what else does then.
var watchCases = []struct {
	rule    string // its key
	values  int    // so many, 15 s apart, are needed; with one less it does not fire
	courses []course
	subject string
	also    []string
}{
	{"store_away critical", 3, []course{{"troupe_store_up", "", 0, 0}}, "a", nil},
	{"broker_away critical", 3, []course{{"troupe_broker_up", "", 0, 0}}, "a", nil},
	{"broker_blocked critical", 3, []course{{"troupe_broker_blocked", "", 1, 0}}, "a", nil},
	{"recorder_stalled critical", 1, []course{{"troupe_recorder_uncommitted_seconds", "", 31, 0}}, "a", nil},
	{"store_slow warning", 22, []course{{buckets, "0.5", 0, 1}, {buckets, "2.5", 0, 10}, {buckets, "+Inf", 0, 10}}, "a", nil},
	{"outbox_behind warning", 5, []course{{"troupe_notices_oldest_seconds", "", 61, 0}}, "", nil},
	{"webhooks_behind warning", 21, []course{{"troupe_webhooks_oldest_seconds", "", 901, 0}}, "", nil},
	{"clock_skew warning", 9, []course{{"troupe_clock_ahead_seconds", "", -1.5, 0}}, "a", nil},
	{"no_active_workers critical", 3, []course{{usable, "go", 0, 0}}, "go", nil},
	{"pool_broken critical", 1, []course{{"troupe_pool_broken", "go", 1, 0}}, "go", nil},
	{"unhealthy_workers critical", 5, []course{{unhealthy, "go", 8, 0}, {workers, "go", 10, 0}}, "go", []string{"unhealthy_workers warning"}},
	{"unhealthy_workers warning", 5, []course{{unhealthy, "go", 7, 0}, {workers, "go", 10, 0}}, "go", nil},
	{"workers_restarting warning", 22, []course{{"troupe_worker_restarts_total", "go", 100, 100}}, "go", nil},
	{"workers_unattached critical", 1, []course{{"troupe_workers_unattached", "go", 8, 0}, {workers, "go", 10, 0}}, "go", []string{"workers_unattached warning"}},
	{"workers_unattached warning", 1, []course{{"troupe_workers_unattached", "go", 7, 0}, {workers, "go", 10, 0}}, "go", nil},
	{"session_state_broken warning", 1, []course{{"troupe_session_states_aside", "go", 1, 0}}, "go", nil},
	{"dispatch_late warning", 2, []course{{"troupe_dispatch_echo_late_total", "go", 0, 1}}, "go", nil},
	{"executions_poisoned warning", 2, []course{{`troupe_executions_total{code="poisoned"}`, "go", 0, 1}}, "go", nil},
	{"high_execution_timeout_rate warning", 2, []course{{"troupe_execution_timeouts_total", "go", 100, 14}}, "go", nil},
	{"retry_rate critical", 22, []course{{"troupe_retries_total", "go", 100, 12}, {ended, "go", 100, 20}}, "go", []string{"retry_rate warning"}},
	{"retry_rate warning", 22, []course{{"troupe_retries_total", "go", 100, 6}, {ended, "go", 100, 20}}, "go", nil},
	{"stale_executions warning", 1, []course{{"troupe_executions_stale_seconds", "go", 301, 0}}, "go", nil},
	{"dlq_buildup critical", 21, []course{{"troupe_dead_letter_queue_messages", "", 101, 0}}, "", []string{"dlq_buildup warning"}},
	{"dlq_buildup warning", 1, []course{{"troupe_dead_letter_queue_messages", "", 101, 0}}, "", nil},
	{"dlq_rate warning", 2, []course{{"troupe_dead_letters_total", "", 100, 40}}, "", nil},
	{"node_lost critical", 1, []course{{"troupe_nodes_lost_recently", "", 1, 0}}, "", nil},
	{"heartbeat_late warning", 1, []course{{"troupe_heartbeat_age_seconds", "", 31, 0}}, "a", nil},
	{"actor_stuck warning", 5, []course{{"troupe_stuck_actors", "", 1, 0}}, "a", nil},
}

// Every rule can be judged by a node, and fires when it has been bad as long as it wants.
func TestEveryRuleIsJudged(t *testing.T) {
	t.Parallel()
	rules := map[string]alerts.Rule{}
	for _, r := range alerts.Rules() {
		rules[r.Key()] = r
	}
	for _, c := range watchCases {
		rule, known := rules[c.rule]
		require.True(t, known, c.rule)
		w := after(c.values, c.courses...)
		var fire []string
		for _, r := range alerts.Rules() {
			for _, subject := range w.Firing(&r) {
				require.Equal(t, c.subject, subject, r.Key())
				fire = append(fire, r.Key())
			}
		}
		require.ElementsMatch(t, append(c.also, c.rule), fire, c.rule)
		found := w.Findings()
		require.Len(t, found, 1, "of one name the most severe alone: %s", c.rule)
		require.Equal(t, rule.Name, found[0].Name)
		require.Equal(t, rule.Severity, found[0].Severity)
		require.NotContains(t, w.Unknown(), rule.Name)
		require.Empty(t, after(c.values-1, c.courses...).Firing(&rule), "%s fires too early", c.rule)
		delete(rules, c.rule)
	}
	require.Empty(t, rules, "rules without a case")
}

func TestAFindingSaysSinceWhen(t *testing.T) {
	t.Parallel()
	w := after(10, course{"troupe_store_up", "", 1, 0})
	require.Empty(t, w.Findings())
	observe(w, 10, 13, "a", course{"troupe_store_up", "", 0, 0})
	found := w.Findings()
	require.Len(t, found, 1)
	require.Equal(t, start.Add(10*alerts.Spacing), found[0].Since)
	require.Equal(t, "Node a: the store does not answer", found[0].Message)
	require.Equal(t, "node", found[0].Kind)
	require.Equal(t, "docs/alerts.md#store_away", found[0].Link)
	observe(w, 13, 14, "a", course{"troupe_store_up", "", 1, 0})
	require.Empty(t, w.Findings())
	observe(w, 14, 16, "a", course{"troupe_store_up", "", 0, 0})
	require.Empty(t, w.Findings(), "it counts anew")
	observe(w, 16, 20, "b", course{"troupe_store_up", "", 0, 0})
	require.Equal(t, "b", w.Findings()[0].Subject, "a node that says nothing has no numbers")
	require.Len(t, w.Findings(), 1)
}

// What was before a node's first look it does not know, and it says of which rules that matters.
func TestAWatchSaysWhatItJudgesInPart(t *testing.T) {
	t.Parallel()
	up := course{"troupe_store_up", "", 1, 0}
	first := after(1, up)
	require.Equal(t, start, first.Since())
	require.Contains(t, first.Partly(), "store_away", "it must be so for 30 s")
	require.NotContains(t, first.Partly(), "node_lost", "all nodes share it")
	require.NotContains(t, first.Partly(), "pool_broken", "one look is enough")
	later := after(int(10*time.Minute/alerts.Spacing)+1, up)
	require.Equal(t, start, later.Since())
	require.Equal(t, []string{"workers_restarting"}, later.Partly(), "it looks ten minutes back, for five minutes")
	require.Empty(t, after(int(15*time.Minute/alerts.Spacing)+1, up).Partly())
	for _, r := range alerts.Rules() {
		require.LessOrEqual(t, r.Back(), 15*time.Minute, r.Key())
		require.Equal(t, strings.Contains(r.Expression(), "m])"), r.Back() > r.For, "%s looks as far back as its expression", r.Key())
	}
}

// What one node lacks another may have.
func TestAPoolIsJudgedByAllItsNodes(t *testing.T) {
	t.Parallel()
	w := alerts.NewWatch(alerts.Rules())
	for i := range 9 {
		w.Observe(start.Add(time.Duration(i)*alerts.Spacing), []alerts.NodeReading{
			{Node: "a", Readings: []alerts.Reading{{Series: usable, Values: map[string]float64{"go": 0, "python": 0}}}},
			{Node: "b", Readings: []alerts.Reading{{Series: usable, Values: map[string]float64{"go": 1}}}},
		})
	}
	found := w.Findings()
	require.Len(t, found, 1)
	require.Equal(t, "python", found[0].Subject)
	require.Contains(t, w.Unknown(), "store_away", "no node says how its store is")
	require.NotContains(t, w.Unknown(), "no_active_workers")
}

func TestSamplesAreSummedToReadings(t *testing.T) {
	t.Parallel()
	sample := func(name string, v float64, labels ...string) alerts.Sample {
		s := alerts.Sample{Name: name, Value: v, Labels: map[string]string{}}
		for i := 0; i < len(labels); i += 2 {
			s.Labels[labels[i]] = labels[i+1]
		}
		return s
	}
	series := alerts.AllSeries(alerts.Rules())
	read := map[string]map[string]float64{}
	for _, r := range alerts.Read(series, []alerts.Sample{
		sample(workers, 3, "pool", "go", "grade", "healthy"), sample(workers, 1, "pool", "go", "grade", "degraded"),
		sample(workers, 2, "pool", "go", "grade", "unhealthy"), sample(workers, 5, "pool", "go", "grade", "unknown"),
		sample(ended, 7, "pool", "go", "status", "failed", "code", "x"), sample(ended, 1, "pool", "go", "status", "completed", "code", ""),
		sample("troupe_dead_letters_total", 1, "reason", "expired"), sample("troupe_dead_letters_total", 2, "reason", "unreadable"),
		sample("troupe_actors", 12),
	}) {
		read[r.Series] = r.Values
	}
	require.Equal(t, map[string]map[string]float64{
		usable: {"go": 4}, unhealthy: {"go": 2}, workers: {"go": 11}, ended: {"go": 8}, "troupe_dead_letters_total": {"": 3},
	}, read)
}

// A counter's growth is that of its values, also where it began anew.
func TestACountersGrowthIsThatOfItsValues(t *testing.T) {
	t.Parallel()
	rule := named(t, "dispatch_late")
	rapid.Check(t, func(t *rapid.T) {
		w, now, v, grown := alerts.NewWatch(alerts.Rules()), start, 1000.0, 0.0
		values := rapid.IntRange(2, 20).Draw(t, "values")
		anew := rapid.IntRange(1, 40).Draw(t, "begins anew") // the node is started again, or not
		for i := range values {
			if i > 0 {
				more := float64(rapid.IntRange(0, 5).Draw(t, "more"))
				if i == anew {
					v = 0
				}
				v, grown = v+more, grown+more
				now = now.Add(alerts.Spacing)
			}
			w.Observe(now, []alerts.NodeReading{{Node: "a", Readings: []alerts.Reading{{Series: "troupe_dispatch_echo_late_total", Values: map[string]float64{"go": v}}}}})
		}
		got := w.Values(&rule)["go"]
		require.GreaterOrEqual(t, got, grown-1e-9)
		require.LessOrEqual(t, got, 1.5*grown+1e-9, "drawn out by at most half a step at its start")
	})
}

// Values that are read often take no more room than those of every 15 s.
func TestAWatchIsOfBoundedSize(t *testing.T) {
	t.Parallel()
	w, rule := alerts.NewWatch(alerts.Rules()), named(t, "dlq_rate")
	for i := range 1200 {
		w.Observe(start.Add(time.Duration(i)*time.Second), []alerts.NodeReading{{Node: "a", Readings: []alerts.Reading{
			{Series: "troupe_dead_letters_total", Values: map[string]float64{"": float64(i)}}, {Series: "of a newer release", Values: map[string]float64{"": 1}},
		}}})
	}
	require.InDelta(t, 60, w.Values(&rule)[""], 1e-9, "a dead letter a second")
}

// named is the first rule of a name.
func named(t *testing.T, name string) alerts.Rule {
	for _, r := range alerts.Rules() {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("there is no rule %s", name)
	return alerts.Rule{}
}
