package bulk_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/bulk"
)

// TestJudge has the verdict of both kinds for every status, with and without a retry.
func TestJudge(t *testing.T) {
	t.Parallel()
	for status, want := range map[messages.Status][3]bulk.Why{ // retry, retry of what is retried, cancel
		messages.Requested:  {bulk.NotEnded, bulk.NotEnded, ""},
		messages.Scheduling: {bulk.NotEnded, bulk.NotEnded, ""},
		messages.Scheduled:  {bulk.NotEnded, bulk.NotEnded, ""},
		messages.Running:    {bulk.NotEnded, bulk.NotEnded, ""},
		messages.Cancelling: {bulk.NotEnded, bulk.NotEnded, bulk.Cancelling},
		messages.Completed:  {bulk.Completed, bulk.Completed, bulk.Ended},
		messages.Failed:     {"", bulk.AlreadyRetried, bulk.Ended},
		messages.TimedOut:   {"", bulk.AlreadyRetried, bulk.Ended},
		messages.Cancelled:  {"", bulk.AlreadyRetried, bulk.Ended},
		messages.Abandoned:  {"", bulk.AlreadyRetried, bulk.Ended},
	} {
		e := messages.Execution{Status: status}
		require.Equal(t, want[0], bulk.Judge(bulk.Retry, &e), "retry of %s", status)
		require.Equal(t, want[2], bulk.Judge(bulk.Cancel, &e), "cancel of %s", status)
		e.RetriedAs = messages.NewExecutionID()
		require.Equal(t, want[1], bulk.Judge(bulk.Retry, &e), "retry of %s that has a retry", status)
		require.Equal(t, want[2], bulk.Judge(bulk.Cancel, &e), "cancel of %s that has a retry", status)
	}
	for _, status := range messages.Statuses() {
		for _, kind := range []bulk.Kind{bulk.Retry, bulk.Cancel} {
			why := bulk.Judge(kind, &messages.Execution{Status: status})
			require.True(t, why == "" || explained(why), "%s of %s: %s has no meaning", kind, status, why)
		}
	}
}

// TestJudgeLetter has the verdict of both kinds for what a dead letter has become and for the state of its execution.
func TestJudgeLetter(t *testing.T) {
	t.Parallel()
	named := bulk.Letter{Resolution: "failed", Execution: messages.NewExecutionID(), Status: messages.Failed}
	for name, c := range map[string]struct {
		change           func(l *bulk.Letter)
		requeue, discard bulk.Why
	}{
		"its execution failed":             {func(*bulk.Letter) {}, "", ""},
		"its execution goes on":            {func(l *bulk.Letter) { l.Resolution, l.Status = "stale", messages.Running }, bulk.NotEnded, ""},
		"its execution has a result":       {func(l *bulk.Letter) { l.Resolution, l.Status = "stale", messages.Completed }, bulk.Completed, ""},
		"its execution has a retry":        {func(l *bulk.Letter) { l.RetriedAs = messages.NewExecutionID() }, bulk.AlreadyRetried, ""},
		"its execution is not there":       {func(l *bulk.Letter) { l.Resolution, l.Status = "missing", messages.StatusInvalid }, bulk.Unknown, ""},
		"it could not be read":             {func(l *bulk.Letter) { *l = bulk.Letter{Resolution: "quarantined: x"} }, bulk.NoExecution, ""},
		"it was requeued":                  {func(l *bulk.Letter) { l.Resolution = bulk.Requeued }, bulk.AlreadyRequeued, bulk.AlreadyRequeued},
		"it was discarded":                 {func(l *bulk.Letter) { l.Resolution = bulk.Discarded }, bulk.AlreadyDiscarded, bulk.AlreadyDiscarded},
		"it was discarded, and is unknown": {func(l *bulk.Letter) { *l = bulk.Letter{Resolution: bulk.Discarded} }, bulk.AlreadyDiscarded, bulk.AlreadyDiscarded},
	} {
		l := named
		c.change(&l)
		require.Equal(t, c.requeue, bulk.JudgeLetter(bulk.Requeue, &l), name)
		require.Equal(t, c.discard, bulk.JudgeLetter(bulk.Discard, &l), name)
		require.True(t, (c.requeue == "" || explained(c.requeue)) && (c.discard == "" || explained(c.discard)), name)
	}
}

func explained(why bulk.Why) bool {
	for _, w := range bulk.Whys() {
		if w[0] == string(why) {
			return w[1] != ""
		}
	}
	return false
}

func TestParseKind(t *testing.T) {
	t.Parallel()
	for _, kind := range bulk.Kinds() {
		got, err := bulk.ParseKind(string(kind))
		require.NoError(t, err)
		require.Equal(t, kind, got)
		require.Equal(t, kind == bulk.Requeue || kind == bulk.Discard, kind.Letters())
	}
	_, err := bulk.ParseKind("delete")
	require.EqualError(t, err, `want retry, cancel, requeue or discard, got "delete"`)
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	for _, empty := range []map[string][]string{nil, {}, {"status": nil}, {"status": {""}, "pool": {" ", ""}}} {
		require.True(t, bulk.Empty(empty), "%v", empty)
	}
	require.False(t, bulk.Empty(map[string][]string{"status": {""}, "pool": {"p"}}))
}

func TestPriority(t *testing.T) {
	t.Parallel()
	for of, want := range map[messages.Priority]messages.Priority{0: 0, 1: 0, 5: 4, 9: 8} {
		require.Equal(t, want, bulk.Priority(of))
	}
}

func TestKeyFits(t *testing.T) {
	t.Parallel()
	op, e := messages.NewOperationID(), messages.NewExecutionID()
	key := bulk.Key(op, e)
	require.Equal(t, "op:"+op.String()+":"+e.String(), key)
	require.LessOrEqual(t, len(key), messages.KeyMax)
}

func TestTally(t *testing.T) {
	t.Parallel()
	tally := bulk.NewTally(bulk.Retry)
	for i := range 100 {
		status := messages.Failed
		if i%4 == 0 {
			status = messages.TimedOut
		}
		e := messages.Execution{ID: messages.NewExecutionID(), Status: status, Action: fmt.Sprint("a", i%70)}
		tally.Add(&e)
	}
	tally.Add(&messages.Execution{Status: messages.Running})
	tally.Skip(bulk.Unknown)
	require.Equal(t, int64(100), tally.Count)
	require.Equal(t, int64(102), tally.Matched)
	require.Len(t, tally.Examples, bulk.ExamplesMax)
	require.Equal(t, []bulk.Counted{{"failed", 75}, {"timed_out", 25}}, tally.Statuses())
	require.Equal(t, []bulk.Counted{{"not_ended", 1}, {"unknown", 1}}, bulk.Sorted(tally.Skipped))
	actions := bulk.Sorted(tally.Action)
	require.Len(t, actions, 51, "the rest is one")
	sum := int64(0)
	for _, a := range actions {
		sum += a.N
	}
	require.Equal(t, tally.Count, sum)
}

func TestTallyOfLetters(t *testing.T) {
	t.Parallel()
	tally := bulk.NewTally(bulk.Requeue)
	for i := range 12 {
		l := bulk.Letter{ID: int64(i + 1), Reason: "expired", Action: "a.b", Execution: messages.NewExecutionID(), Status: messages.Failed}
		if i%4 == 0 {
			l.Reason = "rejected"
		}
		tally.AddLetter(&l)
	}
	tally.AddLetter(&bulk.Letter{Resolution: bulk.Requeued})
	require.Equal(t, [2]int64{12, 13}, [2]int64{tally.Count, tally.Matched})
	require.Equal(t, []bulk.Counted{{"expired", 9}, {"rejected", 3}}, bulk.Sorted(tally.Reason))
	require.Equal(t, []bulk.Counted{{"a.b", 12}}, bulk.Sorted(tally.Action))
	require.Equal(t, map[bulk.Why]int64{bulk.AlreadyRequeued: 1}, tally.Skipped)
	require.Len(t, tally.Letters, bulk.ExamplesMax)
	require.Equal(t, int64(1), tally.Letters[0].ID)
}

func TestGrown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, now int64
		want        bool
	}{{0, 0, false}, {0, 1, true}, {10, 11, false}, {10, 12, true}, {100, 110, false}, {100, 111, true}, {100, 5, false}} {
		require.Equal(t, c.want, bulk.Grown(c.before, c.now), "%v", c)
	}
}

// TestPaceKeepsTheRate checks that in any time no more is taken than the rate allows, beside one second's share at the start.
func TestPaceKeepsTheRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p bulk.Pace
		rate := rapid.IntRange(1, bulk.RateMax).Draw(t, "rate")
		begin := time.Unix(1000, 0)
		now, latest, taken := begin, begin, 0 // the clock may be set back
		for range rapid.IntRange(1, 60).Draw(t, "rounds") {
			n := p.Take(now, rate)
			require.LessOrEqual(t, n, bulk.StepMax)
			unused := rapid.IntRange(0, n).Draw(t, "unused")
			p.Return(unused)
			taken += n - unused
			require.LessOrEqual(t, float64(taken), float64(rate)*(1+latest.Sub(begin).Seconds())+0.001)
			now = now.Add(time.Duration(rapid.IntRange(-10, 3000).Draw(t, "ms")) * time.Millisecond)
			if now.After(latest) {
				latest = now
			}
		}
	})
}

// TestPaceReachesTheRate checks that a slow rate gets its share in rounds that are shorter than one execution takes.
func TestPaceReachesTheRate(t *testing.T) {
	t.Parallel()
	var p bulk.Pace
	now, taken := time.Unix(1000, 0), 0
	for range 100 {
		taken += p.Take(now, 1)
		now = now.Add(500 * time.Millisecond)
	}
	require.InDelta(t, 50, taken, 1)
}
