package health

import (
	"fmt"
	"strings"
)

// Grade is how well a worker does. The zero value is no grade; nothing is placed on such a worker.
type Grade uint8

// The grades. A degraded worker still gets work, after the healthy ones; an unhealthy one gets none.
const (
	Unknown Grade = iota
	Healthy
	Degraded
	Unhealthy
)

var gradeNames = [...]string{"unknown", "healthy", "degraded", "unhealthy"}

// Grades lists every grade a worker can have.
func Grades() []Grade { return []Grade{Healthy, Degraded, Unhealthy} }

func (g Grade) String() string {
	if int(g) < len(gradeNames) {
		return gradeNames[g]
	}
	return fmt.Sprintf("grade(%d)", uint8(g))
}

// Takes reports whether a worker of the grade may get work.
func (g Grade) Takes() bool { return g == Healthy || g == Degraded }

// Worse returns the worse of two grades.
func (g Grade) Worse(other Grade) Grade { return max(g, other) }

// ParseGrade is the inverse of String.
func ParseGrade(text string) (Grade, error) {
	for g, name := range gradeNames {
		if name == text {
			return Grade(g), nil
		}
	}
	return Unknown, fmt.Errorf("unknown health grade %.64q", text)
}

// MarshalText writes the name.
func (g Grade) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads a name.
func (g *Grade) UnmarshalText(b []byte) error {
	parsed, err := ParseGrade(string(b))
	if err != nil {
		return err
	}
	*g = parsed
	return nil
}

// Causes is the set of things that keep a worker from being healthy.
type Causes uint8

// The causes.
const (
	HeartbeatStale  Causes = 1 << iota // no heartbeat, or one older than the limit
	HeartbeatFuture                    // the heartbeat is ahead of the store's clock: fresh, with a warning
	FailuresInRow                      // worker faults in a row
	QueueDepth                         // placements waiting on the worker
	FailureRate                        // worker faults among the last executions
	StateDegraded                      // the lifecycle says degraded
	Reported                           // its own node says so
)

var causeNames = [...]string{
	"heartbeat_stale", "heartbeat_future", "consecutive_failures", "queue_depth", "failure_rate", "state_degraded",
	"reported",
}

// Names lists the causes by name.
func (c Causes) Names() []string {
	var names []string
	for i, name := range causeNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String joins the names with commas; the empty set is the empty text.
func (c Causes) String() string { return strings.Join(c.Names(), ",") }
