package retry

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// PoisonLimit is how many workers an execution, or its chain of retries, may kill before it is kept for inspection.
const PoisonLimit = 3

// ReasonManual is the retry reason of a retry that a person asked for.
const ReasonManual = "manual_retry"

// Input is what Decide looks at.
type Input struct {
	Now       time.Time
	Execution *messages.Execution // as it was while it ran; not changed
	Outcome   messages.Outcome
	Policy    Policy // zero fields: the defaults
	// Random returns numbers in [0, 1); nil: no jitter.
	Random func() float64
	// Disabled is the configuration's retry.enabled turned off.
	Disabled bool
	// Leaked says that a go handler would not end: it may still be doing its work.
	Leaked bool
}

// Decision is whether a retry follows.
type Decision struct {
	Retry  bool
	Delay  time.Duration
	RunAt  time.Time // now + delay
	Reason string    // retry_reason: the error's code
	Denied Denial    // why no retry follows
}

// Denial is why no retry follows. Empty: one does.
type Denial string

// The denials.
const (
	DeniedCompleted Denial = "completed"
	DeniedCancelled Denial = "cancelled"
	DeniedDisabled  Denial = "retries_disabled"
	DeniedFinal     Denial = "not_retriable"
	DeniedPoisoned  Denial = "poisoned"
	DeniedConsent   Denial = "no_consent_to_repeat" // its effects may have happened, and nobody allowed to repeat them
	DeniedLeaked    Denial = "handler_still_runs"
	DeniedMax       Denial = "max_retries_reached"
	DeniedRetried   Denial = "already_retried"
	DeniedRunning   Denial = "not_finished"
)

// Decide says whether an execution that ends with the outcome is retried, when, and if not, why not.
func Decide(in Input) Decision {
	if denied := deny(in); denied != "" {
		return Decision{Denied: denied}
	}
	delay := Delay(Resolve(in.Policy, Policy{}), in.Execution.RetryCount, in.Random)
	return Decision{Retry: true, Delay: delay, RunAt: in.Now.Add(delay), Reason: reason(in.Outcome)}
}

func deny(in Input) Denial {
	e, o := in.Execution, in.Outcome
	switch {
	case o.Status == messages.Completed:
		return DeniedCompleted
	case o.Status == messages.Cancelled, e.Status == messages.Cancelling:
		return DeniedCancelled
	case !o.Status.Terminal():
		return DeniedRunning
	case in.Disabled:
		return DeniedDisabled
	case !e.RetriedAs.IsZero():
		return DeniedRetried
	case Classify(o.Status, o.Error) != Retriable:
		return DeniedFinal
	case crashed(o) && e.CrashCount+1 >= PoisonLimit:
		return DeniedPoisoned
	case lost(o) && !consent(e):
		return DeniedConsent
	case in.Leaked && !e.Idempotent:
		return DeniedLeaked
	case e.RetryCount >= e.MaxRetries:
		return DeniedMax
	}
	return ""
}

// lost reports whether the worker went away while the execution ran, so that nobody knows what it has done.
func lost(o messages.Outcome) bool {
	if o.Status == messages.Abandoned {
		return true
	}
	return o.Error != nil && (o.Error.Code == messages.CodeWorkerLost || o.Error.Code == messages.CodeNodeShutdown)
}

// crashed reports whether the worker died of its own while the execution ran: a node that was told to stop is no crash.
func crashed(o messages.Outcome) bool {
	return lost(o) && (o.Error == nil || o.Error.Code != messages.CodeNodeShutdown)
}

// consent reports whether someone allowed to repeat what may already have happened.
func consent(e *messages.Execution) bool { return e.Idempotent || e.MayRepeat }

func reason(o messages.Outcome) string {
	if o.Error != nil && o.Error.Code != "" {
		return string(o.Error.Code)
	}
	return o.Status.String()
}

// Manual says whether a person may retry the execution now. It asks neither the classifier nor max_retries: the person
// takes that upon themselves. Only what ended without a result, and has no retry yet, can be retried.
func Manual(now time.Time, e *messages.Execution) Decision {
	switch {
	case !e.Status.Terminal():
		return Decision{Denied: DeniedRunning}
	case e.Status == messages.Completed:
		return Decision{Denied: DeniedCompleted}
	case !e.RetriedAs.IsZero():
		return Decision{Denied: DeniedRetried}
	}
	return Decision{Retry: true, RunAt: now, Reason: ReasonManual}
}

// Explain says in a sentence what a denial means for the execution, for people.
func (d Denial) Explain(e *messages.Execution) string {
	switch d {
	case DeniedCompleted:
		return "it is completed: nothing is left to repeat; submit a new execution to run its action again"
	case DeniedCancelled:
		return "it was cancelled, which no retry follows by itself"
	case DeniedMax:
		return fmt.Sprintf("retry %d of at most %d was the last", e.RetryCount, e.MaxRetries)
	case DeniedConsent:
		return "its worker was lost while it ran; set idempotent or max_retries on the action to allow a repeat"
	case DeniedLeaked:
		return "its handler would not end and may still be running; set idempotent to allow a repeat"
	case DeniedPoisoned:
		return fmt.Sprintf("it took down %d workers", PoisonLimit)
	case DeniedRetried:
		return fmt.Sprintf("it was already retried as %s", e.RetriedAs)
	case DeniedRunning:
		return fmt.Sprintf("it is %s; cancel it or wait for its end", e.Status)
	case DeniedFinal:
		return "a repeat would not help this error"
	case DeniedDisabled:
		return "retries are switched off (retry.enabled)"
	}
	return string(d)
}
