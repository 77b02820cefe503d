package lifecycle

import "github.com/troupe-run/troupe/messages"

// Metadata is what is known about a transition. Its zero fields are unknown. Checkout sets Execution, Attempt, Session
// and Caller; an error at check-in sets Error and FailureCount; an end sets Reason; a process exit sets Exit; a start that failed sets Starts, and a
// crash at once Crashes.
type Metadata struct {
	Execution    messages.ExecutionID `json:"execution,omitzero"`
	Attempt      messages.Attempt     `json:"attempt,omitempty"`
	FailureCount int32                `json:"failure_count,omitempty"` // worker faults in a row
	Session      string               `json:"session,omitempty"`
	Caller       string               `json:"caller,omitempty"`
	Error        string               `json:"error,omitempty"`
	Reason       string               `json:"reason,omitempty"`  // the cause in words, such as "health_check_limit"
	Exit         string               `json:"exit,omitempty"`    // "exit status 3", "signal: SIGKILL"
	Starts       int                  `json:"starts,omitempty"`  // that failed since the one that is recorded before it, with this one
	Crashes      int                  `json:"crashes,omitempty"` // soon after it was ready, since the one that is told before it, with this one
}

// IsZero reports whether nothing is known.
func (m Metadata) IsZero() bool { return m == Metadata{} }
