package retry

import (
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
	Rules     Rules
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
	Class  Class     // of the failure, whether it is retried or not
	Reason string    // retry_reason: the class
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
	DeniedByWorker  Denial = "final_by_worker" // the action's code itself said so
	DeniedNeverOn   Denial = "never_on"
	DeniedNotOn     Denial = "not_in_on"
	DeniedPoisoned  Denial = "poisoned"
	DeniedConsent   Denial = "no_consent_to_repeat" // its effects may have happened, and nobody allowed to repeat them
	DeniedLeaked    Denial = "handler_still_runs"
	DeniedMax       Denial = "max_retries_reached"
	DeniedRetried   Denial = "already_retried"
	DeniedRunning   Denial = "not_finished"

	DeniedUnclassified Denial = "unclassified"
	// DeniedUnknown is of an execution that an older node ended, or whose rules have changed since.
	DeniedUnknown Denial = "not_recorded"
)

// Decide says whether an execution that ends with the outcome is retried, when, and if not, why not.
func Decide(in Input) Decision {
	v := Classify(in.Outcome.Status, in.Outcome.Error)
	if denied := deny(in, v); denied != "" {
		return Decision{Class: v.Class, Denied: denied}
	}
	delay := Delay(Resolve(in.Policy, Policy{}), in.Execution.RetryCount, in.Random)
	return Decision{Retry: true, Delay: delay, RunAt: in.Now.Add(delay), Class: v.Class, Reason: string(v.Class)}
}

func deny(in Input, v Verdict) Denial {
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
	}
	if denied := judge(v, o.Status, o.Error, in.Rules); denied != "" {
		return denied
	}
	switch {
	case o.Crash() && e.CrashCount+1 >= PoisonLimit:
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

// consent reports whether someone allowed to repeat what may already have happened.
func consent(e *messages.Execution) bool { return e.Idempotent || e.MayRepeat }

// Manual says whether a person may retry the execution now. It asks neither the classifier nor max_retries: the person
// takes that upon themselves. Only what ended without a result can be retried. That it is retried once is the store's to say.
func Manual(now time.Time, e *messages.Execution) Decision {
	switch {
	case !e.Status.Terminal():
		return Decision{Denied: DeniedRunning}
	case e.Status == messages.Completed:
		return Decision{Denied: DeniedCompleted}
	}
	return Decision{Retry: true, RunAt: now, Reason: ReasonManual}
}
