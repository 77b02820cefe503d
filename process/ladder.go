package process

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Step is one rung of a stop ladder: what to do to the program now.
type Step uint8

// The steps, from mild to final.
const (
	StepNone      Step = iota // nothing is due
	StepCancel                // send the cancel frame of the run
	StepShutdown              // send the shutdown frame
	StepTerminate             // Process.Terminate: SIGTERM to the process group
	StepKill                  // Process.Kill: SIGKILL to the whole tree
)

var stepNames = [...]string{"none", "cancel", "shutdown", "terminate", "kill"}

func (s Step) String() string {
	if int(s) < len(stepNames) {
		return stepNames[s]
	}
	return "unknown"
}

// Target says what a ladder stops: one run of one generation of a worker. The zero Execution and Attempt stand for
// the worker itself, with no run.
type Target struct {
	Generation messages.Generation
	Execution  messages.ExecutionID
	Attempt    messages.Attempt
}

// Graces are the waits after a step before the next. Zero fields mean the defaults.
type Graces struct {
	Cancel    time.Duration `yaml:"cancel_grace" range:"0.01..600" unit:"s" help:"From the cancel frame to SIGTERM."`
	Shutdown  time.Duration // after the shutdown frame
	Terminate time.Duration `yaml:"term_grace" range:"0.01..600" unit:"s" help:"From SIGTERM to SIGKILL."`
}

// The graces of a fenced node, whose lease has less than a second left: everything is killed within 0.7 s.
var fenceGraces = Graces{Cancel: 200 * time.Millisecond, Shutdown: 200 * time.Millisecond, Terminate: 500 * time.Millisecond}

// DefaultGraces are the waits where none is set.
func DefaultGraces() Graces { return Graces{}.withDefaults() }

func (g Graces) withDefaults() Graces {
	if g.Cancel == 0 {
		g.Cancel = 5 * time.Second
	}
	if g.Shutdown == 0 {
		g.Shutdown = time.Second
	}
	if g.Terminate == 0 {
		g.Terminate = 5 * time.Second
	}
	return g
}

// after is the wait between taking a step and the next one.
func (g Graces) after(s Step) time.Duration {
	switch s {
	case StepCancel:
		return g.Cancel
	case StepShutdown:
		return g.Shutdown
	case StepTerminate:
		return g.Terminate
	}
	return 0
}

// below is the order of the rungs, the only place that knows it.
var below = map[Step]Step{
	StepCancel:    StepTerminate,
	StepShutdown:  StepTerminate,
	StepTerminate: StepKill,
	StepKill:      StepNone,
}

// Ladder is a stop in progress: a value that knows the next step and when it is due. It holds no clock. The zero
// Ladder has no steps. A ladder is bound to its Target; whoever carries out a step compares the target first, so that
// a late timer never hits other work.
type Ladder struct {
	Target Target
	graces Graces
	next   Step
	due    time.Time
}

// StopRun stops one run: cancel frame, grace, SIGTERM, grace, SIGKILL. Without frames (a one-shot command, or a
// program that does not know cancel) it begins with SIGTERM. The first step is due now.
func StopRun(target Target, now time.Time, frames bool, graces Graces) Ladder {
	return start(target, now, StepCancel, frames, graces)
}

// StopWorker ends a worker that is no longer needed: shutdown frame, grace, SIGTERM, grace, SIGKILL.
func StopWorker(target Target, now time.Time, frames bool, graces Graces) Ladder {
	return start(target, now, StepShutdown, frames, graces)
}

// Fence ends work that this node may no longer hold, in 0.7 s at most: cancel frame where there are frames and a run,
// SIGTERM, SIGKILL.
func Fence(target Target, now time.Time, frames bool) Ladder {
	first := StepCancel
	if target.Execution.IsZero() {
		first = StepShutdown
	}
	return start(target, now, first, frames, fenceGraces)
}

func start(target Target, now time.Time, first Step, frames bool, graces Graces) Ladder {
	if !frames {
		first = below[first]
	}
	return Ladder{Target: target, graces: graces.withDefaults(), next: first, due: now}
}

// Next returns the step that is due at now, or StepNone, and the ladder that follows. The wait for the step after it
// counts from now, so a caller that comes late still gives every step its grace.
func (l Ladder) Next(now time.Time) (Step, Ladder) {
	if l.next == StepNone || now.Before(l.due) {
		return StepNone, l
	}
	step := l.next
	l.next, l.due = below[step], now.Add(l.graces.after(step))
	return step, l
}

// Due is when the next step is due; ok is false when there is none.
func (l Ladder) Due() (due time.Time, ok bool) { return l.due, l.next != StepNone }

// Done reports whether every step has been taken.
func (l Ladder) Done() bool { return l.next == StepNone }

// Hasten returns a ladder whose next step is due now, for a second request to stop.
func (l Ladder) Hasten(now time.Time) Ladder {
	if l.next != StepNone && now.Before(l.due) {
		l.due = now
	}
	return l
}

// Stops reports whether the ladder is bound to exactly this target.
func (l Ladder) Stops(target Target) bool { return l.Target == target }
