package lifecycle

import "fmt"

// State is where a worker stands in its life.
type State uint8

// The states, in the order of a life. Terminated is final.
const (
	Initializing State = iota // started, its process has not answered hello yet
	Ready                     // idle, waiting for work
	Busy                      // an execution is on it, or its check-in is being judged
	Degraded                  // works as a last resort until a probe succeeds
	Terminating               // being stopped
	Terminated                // gone
)

var stateNames = [...]string{"initializing", "ready", "busy", "degraded", "terminating", "terminated"}

// States lists every state.
func States() []State {
	return []State{Initializing, Ready, Busy, Degraded, Terminating, Terminated}
}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// ParseState is the inverse of String.
func ParseState(text string) (State, error) {
	for s, name := range stateNames {
		if name == text {
			return State(s), nil
		}
	}
	return 0, fmt.Errorf("unknown worker state %q", clip(text))
}

// MarshalText writes the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name.
func (s *State) UnmarshalText(b []byte) error {
	parsed, err := ParseState(string(b))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

// clip bounds a foreign text that goes into an error.
func clip(s string) string {
	const limit = 64
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}
