package messages

import "fmt"

// Status is where an execution stands. The zero value is no status.
type Status uint8

// The statuses, in the order an execution passes them. The last five are terminal and never change.
const (
	StatusInvalid Status = iota
	Requested            // waits for its time, its session or a free worker
	Scheduling           // a router is placing it
	Scheduled            // placed on a worker's queue
	Running              // claimed by a worker generation
	Cancelling           // running, and told to stop
	Completed            // ended with a result
	Failed               // ended with an error
	TimedOut             // stopped at its run deadline, or stalled
	Cancelled            // cancelled before or while it ran
	Abandoned            // its worker died while it ran, and it may not be repeated
)

var statusNames = [...]string{
	"invalid", "requested", "scheduling", "scheduled", "running", "cancelling",
	"completed", "failed", "timed_out", "cancelled", "abandoned",
}

// Statuses lists every status an execution can have.
func Statuses() []Status {
	return []Status{Requested, Scheduling, Scheduled, Running, Cancelling, Completed, Failed, TimedOut, Cancelled, Abandoned}
}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// Terminal reports whether s is an outcome.
func (s Status) Terminal() bool { return s >= Completed && s <= Abandoned }

// Started reports whether a worker holds the execution: running or cancelling.
func (s Status) Started() bool { return s == Running || s == Cancelling }

// ParseStatus is the inverse of String.
func ParseStatus(text string) (Status, error) {
	for s, name := range statusNames {
		if s > 0 && name == text {
			return Status(s), nil
		}
	}
	return StatusInvalid, fmt.Errorf("unknown status %q", clip(text))
}

// MarshalText writes the name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name.
func (s *Status) UnmarshalText(b []byte) error {
	parsed, err := ParseStatus(string(b))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}
