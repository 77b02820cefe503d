package differences_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/differences"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/rollup"
)

var from = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

const length = time.Hour

func hour() *differences.Differences {
	return differences.New(rollup.Compare(from, from.Add(length), from.Add(length), time.Time{}))
}

// in is a time in the range, and before one in the range before.
func in(minute int) time.Time     { return from.Add(time.Duration(minute) * time.Minute) }
func before(minute int) time.Time { return in(minute).Add(-length) }

func ended(at time.Time, pool, action, version string, status messages.Status, code messages.Code, n int64, wait, ran time.Duration) *rollup.Row {
	r := &rollup.Row{Minute: at, N: n, Key: rollup.Key{Pool: pool, Action: action, Version: version, Status: status, Code: code}}
	for range n {
		r.Wait.Add(wait)
		r.Run.Add(ran)
	}
	return r
}

func fine(at time.Time, n int64) *rollup.Row {
	return ended(at, "p", "a.b", "1", messages.Completed, "", n, time.Millisecond, time.Second)
}

func failed(at time.Time, code messages.Code, n int64) *rollup.Row {
	return ended(at, "p", "a.b", "1", messages.Failed, code, n, time.Millisecond, time.Second)
}

func submitted(at time.Time, n int64) *rollup.Row {
	return &rollup.Row{Minute: at, N: n, Key: rollup.Key{Pool: "p", Action: "a.b", Version: "1", Status: rollup.Submitted}}
}

func entry(at time.Time, kind messages.JournalKind, subject, what, reason string) *messages.JournalEntry {
	return &messages.JournalEntry{At: at, Kind: kind, Subject: subject, What: what, Reason: reason}
}

func condition(at time.Time, by messages.Incarnation, reason string) messages.JournalEntry {
	return messages.JournalEntry{At: at, Incarnation: by, Kind: messages.JournalPool, Subject: "p", What: journal.ConditionChanged, Reason: reason}
}

// said is a difference in few words, with its figures.
func said(d *differences.Differences) (list []string) {
	for _, f := range d.Done().Found {
		list = append(list, fmt.Sprintf("%s: %g, before %g", f.Text, f.Value, f.Before))
	}
	return list
}

func TestWhatIsDifferent(t *testing.T) {
	t.Parallel()
	rows := func(list ...*rollup.Row) func(*differences.Differences) {
		return func(d *differences.Differences) {
			for _, r := range list {
				d.Row(r)
			}
		}
	}
	entries := func(list ...*messages.JournalEntry) func(*differences.Differences) {
		return func(d *differences.Differences) {
			for _, e := range list {
				d.Entry(e)
			}
		}
	}
	for name, c := range map[string]struct {
		recorded func(*differences.Differences)
		want     []string
	}{
		"nothing":                  {rows(), nil},
		"all as before":            {rows(fine(before(3), 100), fine(in(3), 120)), nil},
		"a new error":              {rows(fine(before(3), 100), fine(in(3), 100), failed(in(4), "boom", 1)), []string{"a.b failed with boom: 1, before 0"}},
		"an error more often":      {rows(fine(before(3), 1000), fine(in(3), 1000), failed(before(4), "boom", 4), failed(in(4), "boom", 40)), []string{"a.b failed with boom: 40, before 4"}},
		"an error a little more":   {rows(fine(before(3), 1000), fine(in(3), 1000), failed(before(4), "boom", 4), failed(in(4), "boom", 7)), nil},
		"an error that is gone":    {rows(fine(before(3), 1000), fine(in(3), 1000), failed(before(4), "boom", 9)), []string{"a.b failed with boom: 0, before 9"}},
		"a timeout without a code": {rows(fine(before(3), 1000), fine(in(3), 1000), ended(in(5), "p", "a.b", "1", messages.TimedOut, "", 2, 0, 0)), []string{"a.b failed with timed_out: 2, before 0"}},
		"a larger share fails": {rows(fine(before(3), 90), failed(before(3), "boom", 10), fine(in(3), 60), failed(in(3), "boom", 40)),
			[]string{"a.b failed with boom: 40, before 10", "a.b failed, of those that ended: 0.4, before 0.1"}},
		"much more work":           {rows(fine(before(3), 20), fine(in(3), 200), submitted(before(3), 20), submitted(in(3), 200)), []string{"a.b ended: 200, before 20", "pool p: submitted: 200, before 20"}},
		"no work any more":         {rows(fine(before(3), 20)), []string{"a.b ended: 0, before 20"}},
		"a few of work":            {rows(fine(before(3), 2), fine(in(3), 9)), nil},
		"an edge of the range":     {rows(fine(in(-60), 20), fine(in(60), 50), fine(in(-61), 50), fine(in(0), 20)), nil},
		"work that waits":          {rows(fine(before(3), 20), ended(in(3), "p", "a.b", "1", messages.Completed, "", 20, 3*time.Second, time.Second)), []string{"pool p: waited for, 95 % at most: 3444.311, before 0.5"}},
		"a wait that nobody feels": {rows(fine(before(3), 20), ended(in(3), "p", "a.b", "1", messages.Completed, "", 20, 50*time.Millisecond, time.Second)), nil},
		"longer runs":              {rows(fine(before(3), 20), ended(in(3), "p", "a.b", "1", messages.Completed, "", 20, time.Millisecond, 8*time.Second)), []string{"a.b ran for, 95 % at most: 6888.623, before 861.077"}},
		"longer runs of a few":     {rows(fine(before(3), 9), ended(in(3), "p", "a.b", "1", messages.Completed, "", 9, time.Millisecond, 8*time.Second)), nil},
		"a new version": {rows(fine(before(3), 20), ended(in(3), "p", "a.b", "2", messages.Completed, "", 20, time.Millisecond, time.Second)),
			[]string{"a.b 2 ended: 20, before 0", "a.b 1 ended: 0, before 20"}},
		"a new action has no new version": {rows(fine(in(3), 20)), []string{"a.b ended: 20, before 0"}},
		"what has no key of its own":      {rows(ended(in(3), "", rollup.Other, "", messages.Failed, "", 20, 0, 0)), nil},
		"nodes": {entries(entry(in(1), messages.JournalNode, "i1", "joined", ""), entry(in(2), messages.JournalNode, "i2", "dead", ""), entry(before(2), messages.JournalNode, "i2", "joined", "")),
			[]string{"node i2: dead: 1, before 0", "node one: joined: 1, before 0"}},
		"a node that is on time again": {entries(entry(in(1), messages.JournalNode, "i1", "on_time", "")), nil},
		"a server":                     {entries(entry(in(1), messages.JournalServer, "store", "away", "eof"), entry(in(2), messages.JournalServer, "store", "back", "")), []string{"server store: away: 1, before 0"}},
		"routers":                      {entries(entry(in(1), messages.JournalRouter, "p", "taken", ""), entry(in(1), messages.JournalRouter, "p", "given_up", "")), []string{"pool p: a router took it: 1, before 0"}},
		"commands": {entries(entry(in(1), messages.JournalOperator, "n1", "reload", ""), entry(in(2), messages.JournalOperator, "n2", "reload", ""), entry(before(2), messages.JournalOperator, "e1", "cancel", "")),
			[]string{"operators' command reload: 2, before 0"}},
		"a mark": {entries(entry(in(1), messages.JournalMark, "deploy 2", "mark", "")), []string{"mark deploy 2: 1, before 0"}},
		"sessions": {entries(entry(in(1), messages.JournalSession, "p/s", "unbound", "worker_gone"), entry(in(1), messages.JournalSession, "p/s/t", "unbound", "worker_gone"), entry(in(1), messages.JournalSession, "p/s", "bound", "")),
			[]string{"sessions of pool p were unbound: worker gone: 2, before 0"}},
		"workers": {entries(entry(in(1), messages.JournalWorker, "n/p/1", "degraded", ""), entry(in(2), messages.JournalWorker, "n/p/1", "recovered", ""),
			entry(in(2), messages.JournalWorker, "n/p/2", "restarted", ""), entry(before(2), messages.JournalWorker, "n/p/3", "ended", "")),
			[]string{"worker n/p/1 was in trouble: 1, before 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := hour()
			d.Name("i1", "one")
			c.recorded(d)
			require.Equal(t, c.want, said(d))
		})
	}
}

// A condition of a pool lasts until its writer tells of another, or ends, or has told nothing for longer than it would.
func TestHowLongConditionsLasted(t *testing.T) {
	t.Parallel()
	a, b := messages.NewIncarnation(), messages.NewIncarnation()
	for name, c := range map[string]struct {
		entries []messages.JournalEntry
		ends    map[messages.Incarnation]time.Time
		want    []string
	}{
		"from then on":        {[]messages.JournalEntry{condition(in(50), a, "pool_broken")}, nil, []string{"pool p: pool broken: 600, before 0"}},
		"until another":       {[]messages.JournalEntry{condition(in(10), a, "pool_broken"), condition(in(30), b, "ready"), condition(in(20), a, "ready")}, nil, []string{"pool p: pool broken: 600, before 0"}},
		"over the edge":       {[]messages.JournalEntry{condition(in(-10), a, "workers_busy"), condition(in(40), a, "ready")}, nil, []string{"pool p: workers busy: 2400, before 600"}},
		"until the end":       {[]messages.JournalEntry{condition(in(10), a, "pool_broken")}, map[messages.Incarnation]time.Time{a: in(15)}, []string{"pool p: pool broken: 300, before 0"}},
		"no longer than told": {[]messages.JournalEntry{condition(in(-40), a, "pool_broken")}, nil, nil},
		"of no matter":        {[]messages.JournalEntry{condition(in(10), a, "ready")}, nil, nil},
		"for a moment":        {[]messages.JournalEntry{condition(in(10), a, "workers_busy"), condition(in(10).Add(time.Minute), a, "ready")}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := hour()
			d.Conditions(c.entries, c.ends)
			require.Equal(t, len(c.want), len(said(d)))
			for i, f := range d.Found {
				require.Equal(t, c.want[i], fmt.Sprintf("%s: %g, before %g", f.Text, f.Value, f.Before))
			}
		})
	}

	detail, err := json.Marshal(journal.ConditionDetail{Until: in(20), Then: "ready", Shares: map[string]float64{"workers_busy": 0.75, "ready": 0.25}})
	require.NoError(t, err)
	shared := condition(in(0), a, "workers_busy")
	shared.Detail = detail
	d := hour()
	d.Conditions([]messages.JournalEntry{shared}, nil)
	require.Equal(t, []string{"pool p: workers busy: 900, before 0"}, said(d))
}

func TestNotes(t *testing.T) {
	t.Parallel()
	d := hour()
	d.Row(fine(in(1), 1))
	d.Entry(entry(in(2), messages.JournalGap, "session", "dropped", ""))
	d.Entry(entry(in(3), messages.JournalGap, "session", "dropped", ""))
	require.Equal(t, []string{"the journal lacks entries about session, so what is said of them may be wrong",
		"nothing is recorded of the time before, from 2026-03-01T02:00:00Z on: there may have been no node"}, d.Done().Notes)
	d = hour()
	d.Row(failed(in(1), "boom", 1))
	d.Uncount()
	require.Empty(t, said(d))
}

// However many things there are, the answer is bounded, in the order of weight, and each difference is of both ranges.
func TestTheHeaviestComeFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := hour()
		for range rapid.IntRange(0, 200).Draw(t, "rows") {
			at := in(rapid.IntRange(-60, 59).Draw(t, "minute"))
			action := fmt.Sprint("a.", rapid.IntRange(0, 90).Draw(t, "action"))
			status := rapid.SampledFrom([]messages.Status{messages.Completed, messages.Failed, messages.TimedOut}).Draw(t, "status")
			d.Row(ended(at, "p", action, "1", status, "boom", rapid.Int64Range(1, 50).Draw(t, "n"), time.Millisecond, time.Second))
		}
		d.Done()
		require.LessOrEqual(t, len(d.Found), differences.Most)
		for i, f := range d.Found {
			require.NotEqual(t, f.Value, f.Before)
			require.Positive(t, f.Weight)
			require.NotEmpty(t, f.Text)
			require.NotEqual(t, f.Link, f.Earlier)
			if i > 0 {
				require.LessOrEqual(t, f.Weight, d.Found[i-1].Weight)
			}
		}
		require.True(t, d.Left == 0 || len(d.Found) == differences.Most)
	})
	d := hour()
	for i := range 10_000 {
		d.Row(ended(in(1), fmt.Sprint("p", i), fmt.Sprint("a", i), "1", messages.Failed, "boom", 1, 0, 0))
	}
	require.Len(t, d.Done().Found, differences.Most)
	require.Contains(t, d.Notes[len(d.Notes)-1], "more things than are compared at once")
}
