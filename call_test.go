package troupe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// A call to a session has a deadline of its own: the run's timeout and 5 s, from when it is due. Others wait as long as
// their caller does.
func TestACallsDeadline(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		change func(e *Execution)
		caller time.Duration // that the caller has
		want   time.Duration
		late   bool // the deadline is the session's
	}{
		"in a session":       {func(*Execution) {}, time.Hour, 15 * time.Second, true},
		"due later":          {func(e *Execution) { e.RunAt = now.Add(time.Minute) }, time.Hour, 75 * time.Second, true},
		"with less patience": {func(*Execution) {}, 3 * time.Second, 3 * time.Second, false},
		"of no session":      {func(e *Execution) { e.Session = "" }, time.Hour, time.Hour, false},
		"without a timeout":  {func(e *Execution) { e.Timeout = 0 }, time.Hour, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := Execution{
					ID: messages.NewExecutionID(), Action: "a.b", Session: "s", Timeout: 10 * time.Second, Status: Requested,
					RequestedAt: now, RunAt: now,
				}
				c.change(&e)
				ctx, cancel := context.WithTimeout(t.Context(), c.caller)
				defer cancel()
				began := time.Now()
				got, err := Await(ctx, &e, func(ctx context.Context, id ExecutionID) (Execution, error) {
					require.Equal(t, e.ID, id)
					<-ctx.Done()
					return e, nil
				})
				require.Equal(t, c.want, time.Since(began))
				require.Equal(t, e, got)
				if !c.late {
					require.NoError(t, err, "the end of the caller's time is no error")
					return
				}
				var p *Problem
				require.ErrorAs(t, err, &p)
				require.Equal(t, messages.CodeTimeout, p.Code)
				require.Contains(t, p.Message, "Session operation timeout: session s, action a.b")
			})
		})
	}
}
