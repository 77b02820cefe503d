package chaos_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/chaos"
)

// searchTime bounds the search for an order of calls.
const searchTime = time.Minute

// told is one completed call of session s. from and to are in milliseconds.
func told(from, to, count int, epoch int64, worker string) chaos.SessionCall {
	return chaos.SessionCall{
		Session: "s", Key: fmt.Sprint(from), Invoked: time.Duration(from) * time.Millisecond, Returned: time.Duration(to) * time.Millisecond,
		Done: true, Count: count, Epoch: epoch, Worker: worker,
	}
}

// lost is the same call, informed of a loss.
func lost(c chaos.SessionCall, behind int) chaos.SessionCall {
	c.Lost, c.Behind = true, behind
	return c
}

// undone is a call that did not complete.
func undone(from, to int) chaos.SessionCall {
	c := told(from, to, 0, 0, "")
	c.Done = false
	return c
}

// goodCalls are overlapping calls of a session that moves with its state, loses it, and gets an older one.
func goodCalls() []chaos.SessionCall {
	return []chaos.SessionCall{
		told(0, 40, 2, 1, "w1"), told(5, 30, 1, 1, "w1"), // they took effect in the other order
		undone(35, 60),
		told(50, 70, 3, 2, "w2"), // the session moved with its state
		undone(80, 90),
		lost(told(95, 120, 1, 4, "w3"), 0), // it moved twice, without its state
		told(130, 140, 2, 4, "w3"),
		told(150, 160, 3, 4, "w3"),
		lost(told(170, 180, 3, 5, "w1"), 1), // it got the state before the last call
		told(190, 200, 4, 5, "w1"),
		lost(told(210, 220, 3, 6, "w2"), 3), // it got the same state again, which lacks two more calls now
	}
}

func TestCallsThatHaveAnOrder(t *testing.T) {
	t.Parallel()
	require.Empty(t, chaos.CheckSessions(goodCalls(), searchTime))
	require.Empty(t, chaos.CheckSessions(nil, searchTime))
}

// Each fault of a session must be found and named with its session, beside correct sessions.
func TestCallsThatHaveNoOrder(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string][]chaos.SessionCall{
		"a silent reset":                           {told(0, 10, 1, 1, "w1"), told(20, 30, 1, 2, "w2")},
		"a silent reset on the same worker":        {told(0, 10, 1, 1, "w1"), told(20, 30, 1, 1, "w1")},
		"two workers in one epoch":                 {told(0, 10, 1, 1, "w1"), told(20, 30, 2, 1, "w2")},
		"a lost update":                            {told(0, 30, 1, 1, "w1"), told(10, 40, 1, 1, "w1")},
		"a call counted twice":                     {told(0, 10, 1, 1, "w1"), told(20, 30, 3, 1, "w1")},
		"a call that did not complete and counted": {told(0, 10, 1, 1, "w1"), undone(11, 19), told(20, 30, 3, 1, "w1")},
		"an old epoch":                             {told(0, 10, 1, 2, "w1"), told(20, 30, 2, 1, "w1")},
		"a later call first":                       {told(0, 10, 2, 1, "w1"), told(20, 30, 1, 1, "w1")},
		"a loss told, and state that went on":      {told(0, 10, 1, 1, "w1"), lost(told(20, 30, 2, 2, "w2"), 0)},
		"a loss told in the same epoch":            {told(0, 10, 1, 1, "w1"), lost(told(20, 30, 1, 1, "w1"), 0)},
		"an older state than was said":             {told(0, 10, 1, 1, "w1"), told(11, 12, 2, 1, "w1"), told(13, 14, 3, 1, "w1"), lost(told(20, 30, 2, 2, "w2"), 1)},
		"a state from nowhere":                     {told(0, 10, 7, 1, "w1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range bad {
				bad[i].Session = "bad"
			}
			found := chaos.CheckSessions(slices.Concat(goodCalls(), bad), searchTime)
			require.Len(t, found, 1)
			require.Equal(t, "session_is_linear", found[0].Rule)
			require.Contains(t, found[0].What, "session bad")
			require.Len(t, found[0].Trace, len(bad))
		})
	}
}

// A search that does not end proves nothing.
func TestAnUndecidedSearchIsAViolation(t *testing.T) {
	t.Parallel()
	var calls []chaos.SessionCall
	for i := range 24 { // all at the same time, and no order fits the last one
		calls = append(calls, told(0, 1000, i+1, 1, "w1"))
	}
	calls = append(calls, told(0, 1000, 90, 1, "w1"))
	require.NotEmpty(t, chaos.CheckSessions(calls, time.Nanosecond))
}
