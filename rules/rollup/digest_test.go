package rollup_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
)

// ends is a row of executions that ended so many minutes before a time, and ran so long.
func ends(before int, pool, action string, status messages.Status, code messages.Code, n int64, ran time.Duration) *rollup.Row {
	r := &rollup.Row{Minute: start.Add(-time.Duration(before) * time.Minute), N: n, Key: rollup.Key{Pool: pool, Action: action, Version: "1", Status: status, Code: code}}
	for range n {
		r.Run.Add(ran)
		r.Wait.Add(10 * time.Millisecond)
	}
	return r
}

func digest(rows ...*rollup.Row) *rollup.Digest {
	known := start.Add(40 * time.Second)
	d := rollup.NewDigest(rollup.Compare(start.Add(-59*time.Minute), start.Add(time.Minute), known, time.Time{}), known)
	for _, r := range rows {
		d.AddRate(r)
		d.Add(r)
	}
	return d.Done()
}

func TestADigestHasTheRatesOfItsLastMinutes(t *testing.T) {
	t.Parallel()
	d := digest(
		ends(1, "p", "a", messages.Completed, "", 300, time.Second), ends(5, "p", "a", messages.Failed, "boom", 30, time.Second), ends(2, "q", "b", messages.Cancelled, "", 30, time.Second),
		ends(6, "p", "a", messages.Completed, "", 999, time.Hour), ends(0, "p", "a", messages.Completed, "", 999, time.Hour), // before, and not over yet
		&rollup.Row{Minute: start.Add(-time.Minute), Key: rollup.Key{Pool: "p", Action: "a"}, N: 600},
	)
	require.Equal(t, start.Add(-5*time.Minute), d.From)
	require.Equal(t, start, d.To)
	require.InDelta(t, 2, d.Rates.Submitted, 1e-9)
	require.InDelta(t, 1.2, d.Rates.Ended, 1e-9)
	require.InDelta(t, 0.1, d.Rates.Failed, 1e-9)
	require.InEpsilon(t, 1000, d.Rates.RunP95, 0.19)
	require.InDelta(t, 0.1, d.Pool("q").Ended, 1e-9)
	require.Zero(t, d.Pool("unknown"))
	for _, l := range d.Outcomes.Series {
		require.Len(t, l.N, 60)
		if l.Key == "completed" {
			require.Equal(t, []int64{999, 0, 0, 0, 0, 300, 999}, l.N[53:])
		}
	}
}

func TestADigestSaysWhatIsNew(t *testing.T) {
	t.Parallel()
	rows := []*rollup.Row{
		ends(60, "p", "old", messages.Failed, "boom", 4, time.Second), ends(2, "p", "old", messages.Failed, "boom", 90, time.Second),
		ends(30, "p", "new", messages.TimedOut, "timeout", 1, time.Second), ends(3, "p", "new", messages.TimedOut, "timeout", 2, time.Second),
		ends(70, "p", "gone", messages.Failed, "boom", 9, time.Second), ends(2, "p", "stopped", messages.Cancelled, "", 9, time.Second),
		ends(0, "p", "newest", messages.Abandoned, "worker_lost", 1, time.Second), ends(120, "p", "newest", messages.Abandoned, "worker_lost", 1, time.Second),
	}
	d := digest(rows...)
	require.Equal(t, []rollup.Failure{
		{Action: "newest", Code: "worker_lost", N: 1, First: start, Last: start},
		{Action: "new", Code: "timeout", N: 3, First: start.Add(-30 * time.Minute), Last: start.Add(-3 * time.Minute)},
		{Action: "old", Code: "boom", N: 90, Before: 4, First: start.Add(-2 * time.Minute), Last: start.Add(-2 * time.Minute)},
	}, d.Failures)
	for i := range 5000 {
		rows = append(rows, ends(1, "p", fmt.Sprint(i), messages.Failed, "boom", 1, time.Second))
	}
	require.Len(t, digest(rows...).Failures, 5, "however many there are")
}

func TestADigestSaysWhatIsSlower(t *testing.T) {
	t.Parallel()
	d := digest(
		ends(70, "p", "slower", messages.Completed, "", 20, time.Second), ends(7, "p", "slower", messages.Completed, "", 20, 4*time.Second),
		ends(70, "p", "much slower", messages.Completed, "", 20, time.Second), ends(7, "p", "much slower", messages.Completed, "", 20, time.Minute),
		ends(70, "p", "a little", messages.Completed, "", 20, time.Second), ends(7, "p", "a little", messages.Completed, "", 20, 1500*time.Millisecond),
		ends(70, "p", "rare", messages.Completed, "", 3, time.Second), ends(7, "p", "rare", messages.Completed, "", 20, time.Minute),
		ends(7, "p", "without a before", messages.Completed, "", 20, time.Minute),
	)
	require.Len(t, d.Slower, 2)
	require.Equal(t, "much slower", d.Slower[0].Action)
	require.Equal(t, "slower", d.Slower[1].Action)
	require.InEpsilon(t, 4000, d.Slower[1].P95, 0.19)
	require.InEpsilon(t, 1000, d.Slower[1].Before, 0.19)
}

// The rates are of now, whatever range is asked for.
func TestADigestIsOfItsRange(t *testing.T) {
	t.Parallel()
	from := start.Add(-100 * time.Minute)
	d := rollup.NewDigest(rollup.Compare(from, from.Add(10*time.Minute), start, time.Time{}), start)
	for _, r := range []*rollup.Row{
		ends(95, "p", "a", messages.Failed, "boom", 3, time.Second), ends(105, "p", "a", messages.Failed, "boom", 2, time.Second), ends(111, "p", "a", messages.Failed, "boom", 9, time.Second),
		ends(90, "p", "a", messages.Failed, "late", 9, time.Second), ends(2, "p", "a", messages.Completed, "", 300, time.Second),
	} {
		d.AddRate(r)
		d.Add(r)
	}
	d.Done()
	require.Equal(t, rollup.DigestRange{From: from, To: from.Add(10 * time.Minute), Before: from.Add(-10 * time.Minute)}, d.Range)
	require.Equal(t, []rollup.Failure{{Action: "a", Code: "boom", N: 3, Before: 2, First: start.Add(-95 * time.Minute), Last: start.Add(-95 * time.Minute)}}, d.Failures)
	require.InDelta(t, 1, d.Rates.Ended, 1e-9)
	require.Len(t, d.Outcomes.Series, 1)
	require.Equal(t, from, d.Outcomes.From)
}
