package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatIsACrashAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		e     Entry
		first bool
		want  bool
	}{
		"it was just ready":            {Entry{From: Ready, To: Terminating, Reason: Error, In: time.Second}, true, true},
		"it was ready for long":        {Entry{From: Ready, To: Terminating, Reason: Error, In: CrashSoon}, true, false},
		"it had run something":         {Entry{From: Ready, To: Terminating, Reason: Error, In: time.Second}, false, false},
		"it runs something":            {Entry{From: Busy, To: Terminating, Reason: Error, In: time.Second}, false, false},
		"somebody asked for it":        {Entry{From: Ready, To: Terminating, Reason: Terminate, In: time.Second}, true, false},
		"a probe failed":               {Entry{From: Ready, To: Terminating, Reason: HealthCheckFailed, In: time.Second}, true, false},
		"its start failed":             {Entry{From: Initializing, To: Terminated, Reason: Error, In: time.Second}, false, false},
		"what it held is given up now": {Entry{From: Terminating, To: Terminated, Reason: CleanupComplete}, false, false},
	} {
		require.Equal(t, c.want, c.e.CrashedAtOnce(c.first), name)
	}
}

// Of crashes at once one is told in five minutes, with how many it stands for; any other end is told as ever.
func TestCrashesAtOnceAreToldOnceInAWhile(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC)
	var c Crashes
	require.False(t, c.Quiet(), "what replaces a worker that was lost otherwise is told")
	for _, step := range []struct {
		at     time.Duration
		atOnce bool
		n      int
		tell   bool
	}{
		{0, true, 1, true},
		{30 * time.Second, true, 0, false},
		{60 * time.Second, true, 0, false},
		{90 * time.Second, false, 0, true}, // one with an execution, in between
		{120 * time.Second, true, 0, false},
		{StartsEach, true, 4, true},
		{StartsEach + time.Second, true, 0, false},
		{time.Hour, true, 2, true}, // it was well for long, and the one before is counted
		{time.Hour + time.Second, true, 0, false},
	} {
		n, tell := c.Ended(start.Add(step.at), step.atOnce)
		require.Equal(t, step.n, n, "after %v", step.at)
		require.Equal(t, step.tell, tell, "after %v", step.at)
		require.Equal(t, !step.tell, c.Quiet(), "after %v", step.at)
	}
}
