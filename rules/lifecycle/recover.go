package lifecycle

import (
	"fmt"
	"time"
)

// Action is what the pool supervisor does about a failure.
type Action uint8

// The actions.
const (
	Keep    Action = iota // nothing beyond the verdict's step and health: the worker stays
	Retry                 // a failed start is repeated with a new worker
	Degrade               // the worker stays as a last resort; probe it again after the delay
	Remove                // take the worker away at once, unbinding its sessions first, and start another
	Replace               // stop the worker in order, unbinding its sessions first, and start another
)

var actionNames = [...]string{"keep", "retry", "degrade", "remove", "replace"}

func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return fmt.Sprintf("action(%d)", uint8(a))
}

// MarshalText writes the name.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Cause is a verdict's reason.
type Cause string

// The causes.
const (
	CausePortFailure        Cause = "port_failure"
	CauseCheckoutFailed     Cause = "checkout_failed"
	CauseHealthDegraded     Cause = "health_degraded"
	CauseHealthCheckLimit   Cause = "health_check_limit"
	CauseInitFailed         Cause = "init_failed"
	CauseInitTimeout        Cause = "init_timeout"
	CauseTimeoutLimit       Cause = "timeout_limit"
	CauseActionError        Cause = "action_error"
	CauseWorkerFaults       Cause = "worker_faults"
	CauseMaxRetriesExceeded Cause = "max_retries_exceeded"
	CauseClosedByClient     Cause = "closed_by_client"
	CauseNonRecoverable     Cause = "non_recoverable"
	CauseNodeShort          Cause = "node_short"
	CauseSessionState       Cause = "session_state"
	CauseEnding             Cause = "ending" // the worker is going anyway; its failure changes nothing
)

// Removes reports whether a worker that was ready is taken away at once for this cause, rather than stopped in order:
// it has gone already, or cannot be trusted to stop.
func (c Cause) Removes() bool {
	return c == CausePortFailure || c == CauseCheckoutFailed || c == CauseSessionState || c == CauseNonRecoverable
}

// The limits of the recovery table.
const (
	ProbeFailureLimit = 3               // probe failures in a row that end a worker
	WorkerFaultLimit  = 3               // worker faults in a row that degrade a worker
	ProbeAgainAfter   = 5 * time.Second // until a degraded worker is probed again
)

// Snapshot is what Recover needs to know of a worker. The counts include the failure being judged.
type Snapshot struct {
	State State
	// Executing says that an execution is on the worker now. A worker that is busy without one is being checked in.
	Executing bool
	// ProbeFailures counts failed probes in a row.
	ProbeFailures int
	// Faults counts worker faults in a row.
	Faults int
	// FaultLimit is the configured health.degraded_threshold; 0: WorkerFaultLimit.
	FaultLimit int
}

// Verdict is what to do about a failure.
type Verdict struct {
	Action Action
	Delay  time.Duration // before the operation, the next probe or the new start; 0 for a start: ask the restart tracker
	Cause  Cause
	// To and Reason are the lifecycle transition to take; NoReason: none.
	To     State
	Reason Reason
	// Unhealthy says that the worker's health becomes unhealthy even without a transition.
	Unhealthy bool
	// Wanted says that the worker's end is no failure: its slot starts again at once, and no restart is counted.
	Wanted bool
}

// Moves reports whether the verdict has a transition to take.
func (v Verdict) Moves() bool { return v.Reason != NoReason }

// Replaces reports whether another worker takes this one's slot.
func (v Verdict) Replaces() bool { return v.Action == Remove || v.Action == Replace }

// Recover decides what follows from a failure. The transition it names is always one that the table has. The failure
// of a worker that is ending anyway changes nothing.
func Recover(f Failure, s Snapshot) Verdict {
	switch {
	case s.State >= Terminating:
		return Verdict{Cause: CauseEnding}
	case s.State == Initializing:
		return recoverStart(f.Kind)
	}
	switch f.Kind {
	case ProcessExited:
		v := end(Remove, CausePortFailure, s, Error)
		v.Wanted = f.Asked
		return v
	case CheckoutFailed:
		return end(Remove, CauseCheckoutFailed, s, Error)
	case RestoreDied: // the state is charged, so no restart of the pool is: the store bounds how often one is tried
		v := end(Remove, CauseSessionState, s, Error)
		v.Wanted = true
		return v
	case CloseRequested:
		v := end(Replace, CauseClosedByClient, s, ClosedByClient)
		v.Wanted = true
		return v
	case ProbeFailed, ProbeTimedOut:
		return recoverProbe(s)
	case CommandTimedOut:
		return end(Replace, CauseTimeoutLimit, s, Timeout)
	case ActionError:
		return checkIn(s, CauseActionError)
	case WorkerFault, DeadLettered, LateFailure:
		return recoverFault(f.Kind, s)
	case UnhealthyGrade:
		return recoverUnhealthy(s)
	case NodeShort:
		return recoverShort(s)
	}
	return end(Remove, CauseNonRecoverable, s, Error)
}

// recoverStart judges a worker that never became ready: whatever happened, its start has failed and is repeated with
// a new worker. Its back-off is the restart tracker's.
func recoverStart(k FailureKind) Verdict {
	switch k {
	case InitTimedOut:
		return Verdict{Action: Retry, Cause: CauseInitTimeout, To: Terminated, Reason: Timeout}
	case NodeShort:
		return Verdict{Action: Retry, Cause: CauseNodeShort, To: Terminated, Reason: Error}
	}
	return Verdict{Action: Retry, Cause: CauseInitFailed, To: Terminated, Reason: Error}
}

// recoverProbe degrades at the first failures and ends the worker at the limit, but never while an execution is on it:
// then its health alone changes.
func recoverProbe(s Snapshot) Verdict {
	if s.Executing {
		return Verdict{Action: Keep, Delay: ProbeAgainAfter, Cause: CauseHealthDegraded, Unhealthy: true}
	}
	if s.ProbeFailures >= ProbeFailureLimit {
		v := end(Replace, CauseHealthCheckLimit, s, HealthCheckFailed)
		v.Unhealthy = true
		return v
	}
	v := Verdict{Action: Degrade, Delay: ProbeAgainAfter, Cause: CauseHealthDegraded, Unhealthy: true}
	if s.State != Degraded {
		v.To, v.Reason = Degraded, HealthCheckFailed
	}
	return v
}

// recoverShort degrades a worker that the node cannot start a program for, until a probe finds that it can. However long that
// lasts, another worker would fare no better, so it never ends for it.
func recoverShort(s Snapshot) Verdict {
	v := Verdict{Action: Degrade, Delay: ProbeAgainAfter, Cause: CauseNodeShort}
	switch {
	case s.Executing:
		v.Action = Keep
	case s.State != Degraded:
		v.To, v.Reason = Degraded, RecoveryDegrade
	}
	return v
}

// recoverFault degrades a worker at the limit of faults in a row; below it the worker goes on.
func recoverFault(k FailureKind, s Snapshot) Verdict {
	limit := s.FaultLimit
	if limit <= 0 {
		limit = WorkerFaultLimit
	}
	switch {
	case s.Faults < limit:
		if k != WorkerFault { // no check-in reports it
			return Verdict{Action: Keep, Cause: CauseWorkerFaults}
		}
		return checkIn(s, CauseWorkerFaults)
	case s.Executing || s.State == Degraded:
		// Judged again at check-in; a worker leaves busy only when no execution is on it.
		return Verdict{Action: Keep, Cause: CauseWorkerFaults}
	}
	reason := CheckinError
	if k != WorkerFault || s.State == Ready {
		reason = RecoveryDegrade // no check-in reported this fault
	}
	return Verdict{Action: Degrade, Delay: ProbeAgainAfter, Cause: CauseWorkerFaults, To: Degraded, Reason: reason}
}

// recoverUnhealthy ends a worker whose grade is unhealthy, at once or when its execution has ended.
func recoverUnhealthy(s Snapshot) Verdict {
	if s.Executing {
		return Verdict{Action: Keep, Cause: CauseMaxRetriesExceeded}
	}
	return end(Replace, CauseMaxRetriesExceeded, s, MaxRetriesExceeded)
}

// checkIn returns a busy worker without an execution to ready, its error noted.
func checkIn(s Snapshot, c Cause) Verdict {
	v := Verdict{Action: Keep, Cause: c}
	if s.State == Busy && !s.Executing {
		v.To, v.Reason = Ready, CheckinError
	}
	return v
}

// end terminates the worker for the reason, or, where its state has no such edge, for an error: a ready worker has no
// edge for max_retries_exceeded, nor a degraded one for timeout.
func end(a Action, c Cause, s Snapshot, r Reason) Verdict {
	if Check(s.State, Terminating, r) != nil {
		r = Error
	}
	return Verdict{Action: a, Cause: c, To: Terminating, Reason: r}
}
