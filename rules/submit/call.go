package submit

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// CallSlack is how much longer than its run may take a caller waits for an execution of a session.
const CallSlack = 5 * time.Second

// CallTime is how long a caller waits for an execution that it has submitted to a session: until it is due, and then
// as long as its run may take and CallSlack. Its turn may come later than that: the session may be busy with other
// executions. False: it has no session or no run timeout, so nothing bounds the call.
func CallTime(e *messages.Execution) (time.Duration, bool) {
	if e.Session == "" || e.Timeout <= 0 {
		return 0, false
	}
	return max(0, e.RunAt.Sub(e.RequestedAt)) + e.Timeout + CallSlack, true
}

// CallTimedOut is the answer to a call whose time is over before its execution has ended. The execution goes on.
func CallTimedOut(e *messages.Execution) *messages.Problem {
	return &messages.Problem{
		Code:    messages.CodeTimeout,
		Message: fmt.Sprintf("Session operation timeout: session %s, action %s; execution %s is %s and goes on", clip(e.Session), e.Action, e.ID, e.Status),
		Details: map[string]any{"execution": e.ID, "session": e.Session, "action": e.Action, "status": e.Status},
	}
}
