package lifecycle

import "fmt"

// Reason is why a worker changes. The set is closed; the zero value is no reason.
type Reason uint8

// The reasons.
const (
	NoReason           Reason = iota
	InitComplete              // the process answered hello
	Checkout                  // an execution was taken
	CheckinSuccess            // the execution ended well
	CheckinError              // the execution ended with an error
	HealthCheckFailed         // a probe failed
	HealthCheckPassed         // a probe succeeded: health alone changes, so no edge has this reason
	HealthRestored            // a probe succeeded while degraded
	RecoveryDegrade           // degraded for faults that no check-in reported
	MaxRetriesExceeded        // unhealthy by its faults or its failure rate
	Shutdown                  // the node, pool or recycling asked it to end
	Terminate                 // told to end at once
	CleanupComplete           // everything it held is released
	Error                     // its process exited, or it broke
	Timeout                   // its start or its run took too long
	ClosedByClient            // a result asked to close its worker
)

var reasonNames = [...]string{
	"none", "init_complete", "checkout", "checkin_success", "checkin_error", "health_check_failed",
	"health_check_passed", "health_restored", "recovery_degrade", "max_retries_exceeded", "shutdown", "terminate",
	"cleanup_complete", "error", "timeout", "closed_by_client",
}

// Reasons lists every reason.
func Reasons() []Reason {
	all := make([]Reason, 0, len(reasonNames)-1)
	for r := range reasonNames[1:] {
		all = append(all, Reason(r+1))
	}
	return all
}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// ParseReason is the inverse of String; "none" is no reason that can be read.
func ParseReason(text string) (Reason, error) {
	for r, name := range reasonNames {
		if r > 0 && name == text {
			return Reason(r), nil
		}
	}
	return NoReason, fmt.Errorf("unknown transition reason %q", clip(text))
}

// MarshalText writes the name.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a name.
func (r *Reason) UnmarshalText(b []byte) error {
	parsed, err := ParseReason(string(b))
	if err != nil {
		return err
	}
	*r = parsed
	return nil
}

// Quiet reports whether a transition for r happens with every execution: it is logged at debug and not stored. Every
// other transition is stored.
func (r Reason) Quiet() bool { return r == Checkout || r == CheckinSuccess }
