package lead

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

var (
	here  = messages.Incarnation{1}
	there = messages.Incarnation{2}
	third = messages.Incarnation{3}
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// Every mode with all news: what is not named here changes nothing.
func TestEdges(t *testing.T) {
	t.Parallel()
	want := map[Mode]map[News]Mode{
		Alone:     {LedHere: Leading, TakenWhole: Following},
		Leading:   {LedThere: Alone, LedNowhere: Alone, Resigned: Alone},
		Following: {LedHere: Leading, Refused: Alone, Silent: Alone},
	}
	for _, m := range Modes() {
		for _, n := range EachNews() {
			next, changes := want[m][n]
			if !changes {
				next = m
			}
			require.Equal(t, next, Next(m, n), "%s, %s", m, n)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range Modes() {
		seen[m.String()] = true
	}
	for _, n := range EachNews() {
		seen[n.String()] = true
	}
	require.Len(t, seen, len(Modes())+len(EachNews()))
	require.Equal(t, "mode(9)", Mode(9).String())
	require.Equal(t, "news(99)", News(99).String())
}

// joined is a machine that follows, as of the start.
func joined(t *testing.T) *Machine {
	t.Helper()
	m := &Machine{}
	require.Equal(t, Change{Alone, Alone}, m.Led(start, there, false, 7))
	r, due := m.Due(start, false)
	require.True(t, due)
	require.Equal(t, Report{To: there, Epoch: 7, Whole: true}, r)
	m.Sent(start, r)
	require.Equal(t, Change{Alone, Following}, m.Answered(start, r, Taken, ""))
	return m
}

func TestItFollowsOnlyOnceAWholeReportIsTaken(t *testing.T) {
	t.Parallel()
	m := &Machine{}
	_, due := m.Due(start, true)
	require.False(t, due, "nobody leads")
	m.Led(start, there, false, 1)
	part := Report{To: there, Epoch: 1}
	require.Equal(t, Change{Alone, Alone}, m.Answered(start, part, Taken, ""), "a part of a whole one")
	require.Equal(t, Change{Alone, Alone}, m.Answered(start, Report{To: third, Epoch: 1, Whole: true}, Taken, ""), "another's")
	require.Equal(t, Change{Alone, Alone}, m.Answered(start, Report{To: there, Epoch: 2, Whole: true}, Taken, ""), "of another term")
	require.Equal(t, Change{Alone, Alone}, m.Answered(start, Report{To: there, Epoch: 1, Whole: true}, Failed, "no"))
	require.Equal(t, "no", m.Why())
	_, due = m.Due(start.Add(RetryEvery-1), true)
	require.False(t, due, "not at once")
	r, due := m.Due(start.Add(RetryEvery), false)
	require.True(t, due)
	require.True(t, r.Whole)
	require.Equal(t, Change{Alone, Following}, m.Answered(start, Report{To: there, Epoch: 1, Whole: true}, Taken, ""))
	require.Empty(t, m.Why())
}

func TestTriesBecomeRarer(t *testing.T) {
	t.Parallel()
	m := &Machine{}
	m.Led(start, there, false, 1)
	whole := Report{To: there, Epoch: 1, Whole: true}
	for _, wait := range []time.Duration{RetryEvery, 2 * RetryEvery, 4 * RetryEvery, RetryMost, RetryMost} {
		m.Answered(start, whole, Failed, "it does not answer")
		require.Equal(t, wait, m.Wait(start))
		require.Zero(t, m.Wait(start.Add(wait)))
		_, due := m.Due(start.Add(wait-1), true)
		require.False(t, due)
	}
	m.Led(start, third, false, 2)
	require.Zero(t, m.Wait(start), "another router")
}

func TestReportsGoAsOftenAsTheyMust(t *testing.T) {
	t.Parallel()
	m := joined(t)
	_, due := m.Due(start.Add(ReportEvery-1), false)
	require.False(t, due, "nothing has happened")
	r, due := m.Due(start.Add(1), true)
	require.True(t, due)
	require.False(t, r.Whole)
	r, due = m.Due(start.Add(ReportEvery), false)
	require.True(t, due)
	require.False(t, r.Whole)
	m.Sent(start.Add(ReportEvery), r)
	r, due = m.Due(start.Add(WholeEvery), false)
	require.True(t, due)
	require.True(t, r.Whole)
	m.Sent(start.Add(WholeEvery), r)
	m.Break()
	r, due = m.Due(start.Add(WholeEvery+1), false)
	require.True(t, due)
	require.True(t, r.Whole)
}

// After a report whose fate is not known the next is whole, and the node stays what it is until the router has taken
// nothing for as long as the router waits for it.
func TestItWaitsForASilentRouter(t *testing.T) {
	t.Parallel()
	m := joined(t)
	r, _ := m.Due(start, true)
	require.Equal(t, Change{Following, Following}, m.Answered(start, r, Failed, "it does not answer"))
	r, due := m.Due(start.Add(RetryEvery), false)
	require.True(t, due)
	require.True(t, r.Whole)
	require.Equal(t, Change{Following, Following}, m.Tick(start.Add(Patience-1)))
	require.Equal(t, Change{Following, Alone}, m.Tick(start.Add(Patience)))
	require.Equal(t, "it does not answer", m.Why())
	require.Equal(t, start.Add(Patience), m.Since())
	m = joined(t)
	require.Equal(t, Change{Following, Alone}, m.Tick(start.Add(Patience)))
	require.NotEmpty(t, m.Why())
}

func TestARefusalEndsIt(t *testing.T) {
	t.Parallel()
	m := joined(t)
	r, _ := m.Due(start, true)
	require.Equal(t, Change{Following, Alone}, m.Answered(start, r, Refused, "other actions"))
	require.Equal(t, "other actions", m.Why())
	_, due := m.Due(start.Add(RetryMost-1), true)
	require.False(t, due)
	_, due = m.Due(start.Add(RetryMost), true)
	require.True(t, due)
}

// When the router changes, the node goes on following, and tells the next one all.
func TestARouterFollowsAnother(t *testing.T) {
	t.Parallel()
	m := joined(t)
	require.Equal(t, Change{Following, Following}, m.NodeDown(start, third))
	require.Equal(t, Change{Following, Following}, m.NodeDown(start, there))
	_, due := m.Due(start.Add(time.Second), true)
	require.False(t, due, "nobody leads")
	require.Equal(t, Change{Following, Following}, m.Led(start.Add(time.Second), third, false, 8))
	r, due := m.Due(start.Add(time.Second), false)
	require.True(t, due)
	require.Equal(t, Report{To: third, Epoch: 8, Whole: true}, r)
	m.Sent(start.Add(time.Second), r)
	m.Answered(start.Add(2*time.Second), r, Taken, "")
	require.Equal(t, Change{Following, Following}, m.Tick(start.Add(4*time.Second)))
	require.Equal(t, Change{Following, Leading}, m.Led(start.Add(4*time.Second), here, true, 9))
	_, due = m.Due(start.Add(9*time.Second), true)
	require.False(t, due, "a router reports to nobody")
}

func TestALeaderGivesUp(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(*Machine) Change{
		"resigned": func(m *Machine) Change { return m.Resign(start) },
		"another":  func(m *Machine) Change { return m.Led(start, there, false, 2) },
		"nobody":   func(m *Machine) Change { return m.Led(start, messages.Incarnation{}, false, 0) },
	} {
		m := &Machine{}
		require.Equal(t, Change{Alone, Leading}, m.Led(start, here, true, 1))
		require.Equal(t, Change{Leading, Leading}, m.Led(start, here, true, 1))
		require.Equal(t, Change{Leading, Alone}, give(m), name)
		inc, _ := m.Router()
		require.NotEqual(t, here, inc, name)
	}
	m := &Machine{}
	require.Equal(t, Change{Alone, Alone}, m.Resign(start))
}

func TestJudge(t *testing.T) {
	t.Parallel()
	base := Asked{
		Mode: Leading, Epoch: 3, Serves: "s", Known: true, Opened: false, Whole: true, Number: 4,
		Report: Heading{Epoch: 3, Number: 5, Serves: "s"},
	}
	for name, c := range map[string]struct {
		change func(*Asked)
		want   News
		why    string
	}{
		"the next":               {func(*Asked) {}, Taken, ""},
		"the first":              {func(a *Asked) { a.Known, a.Whole, a.Number, a.Report.First = false, false, 0, true }, Taken, ""},
		"a whole one after loss": {func(a *Asked) { a.Report.First, a.Report.Number = true, 9 }, Taken, ""},
		"its next part":          {func(a *Asked) { a.Opened, a.Whole, a.Report.Last = true, false, true }, Taken, ""},
		"not the router":         {func(a *Asked) { a.Mode = Following }, Failed, "not the router"},
		"alone":                  {func(a *Asked) { a.Mode = Alone }, Failed, "not the router"},
		"another term":           {func(a *Asked) { a.Report.Epoch = 2 }, Failed, "term is 3"},
		"it has ended":           {func(a *Asked) { a.Ended = true }, Refused, "has ended"},
		"other actions":          {func(a *Asked) { a.Report.Serves = "t" }, Refused, "other actions"},
		"no broker":              {func(a *Asked) { a.Halted = "the broker is away" }, Failed, "places nothing: the broker is away"},
		"twice":                  {func(a *Asked) { a.Report.Number = 4 }, Failed, "later report"},
		"late and whole":         {func(a *Asked) { a.Report.Number, a.Report.First = 3, true }, Failed, "later report"},
		"one was lost":           {func(a *Asked) { a.Report.Number = 6 }, Failed, "has not taken the report before"},
		"not from the beginning": {func(a *Asked) { a.Known, a.Number, a.Report.Number = false, 0, 1 }, Failed, "has not taken the report before"},
		"no whole one yet":       {func(a *Asked) { a.Whole = false }, Failed, "whole report first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := base
			c.change(&a)
			got, why := Judge(a)
			require.Equal(t, c.want, got)
			require.Contains(t, why, c.why)
			require.Equal(t, c.want == Taken, why == "")
		})
	}
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	at := func(n byte) messages.Placement {
		return messages.Placement{Execution: messages.ExecutionID{n}, Attempt: 1}
	}
	type set = map[messages.Placement]struct{}
	ended, missing := Reconcile(set{at(1): {}}, []messages.Placement{at(1), at(2)}, nil)
	require.Empty(t, ended)
	require.Equal(t, set{at(2): {}}, missing, "the report may be older than the run's begin")
	ended, missing = Reconcile(set{at(1): {}}, []messages.Placement{at(1), at(2), at(3)}, missing)
	require.Equal(t, []messages.Placement{at(2)}, ended)
	require.Equal(t, set{at(3): {}}, missing)
	ended, missing = Reconcile(set{at(1): {}, at(3): {}}, []messages.Placement{at(1), at(3)}, missing)
	require.Empty(t, ended)
	require.Empty(t, missing)
}

// A router of a new term knows nothing of what was reported in the one before, also where it is the same node.
func TestANewTermOfTheSameRouterIsToldAll(t *testing.T) {
	t.Parallel()
	m := joined(t)
	m.Led(start, there, false, 7)
	r, due := m.Due(start.Add(ReportEvery), false)
	require.True(t, due)
	require.False(t, r.Whole, "the same term")
	m.Led(start, there, false, 8)
	r, due = m.Due(start, false)
	require.True(t, due, "at once")
	require.Equal(t, Report{To: there, Epoch: 8, Whole: true}, r)
}
