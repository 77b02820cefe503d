package lifecycle

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What every start, run and stop brings is no news; what goes wrong, and its end, is.
func TestWhatIsNewsOfAWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to State
		reason   Reason
		news     bool
	}{
		{Initializing, Ready, InitComplete, false},
		{Ready, Busy, Checkout, false},
		{Busy, Ready, CheckinSuccess, false},
		{Busy, Ready, CheckinError, false},
		{Ready, Terminating, Shutdown, false},
		{Terminating, Terminated, CleanupComplete, false},
		{Busy, Degraded, CheckinError, true},
		{Ready, Degraded, HealthCheckFailed, true},
		{Degraded, Ready, HealthRestored, true},
		{Busy, Terminating, Error, true},
		{Busy, Terminating, Timeout, true},
		{Busy, Terminating, ClosedByClient, true},
		{Degraded, Terminating, MaxRetriesExceeded, true},
		{Ready, Terminating, Terminate, true},
		{Initializing, Terminated, Error, true},
	} {
		require.NoError(t, Check(c.from, c.to, c.reason))
		e := Entry{From: c.from, To: c.to, Reason: c.reason}
		require.Equal(t, c.news, e.News(), "%s to %s: %s", c.from, c.to, c.reason)
	}
}
