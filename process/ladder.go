package process

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Step is one step of a stop ladder.
type Step uint8

// The steps, in order.
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

// Target names what a ladder stops: one run of one generation of a worker. A zero Execution and Attempt mean the worker
// itself, without a run.
type Target struct {
	Generation messages.Generation
	Execution  messages.ExecutionID
	Attempt    messages.Attempt
}

// Graces are the times between one step and the next. Zero fields mean the defaults.
type Graces struct {
	Cancel    time.Duration `yaml:"cancel_grace" range:"0.01..600" unit:"s" help:"From the cancel frame to SIGTERM."`
	Shutdown  time.Duration // after the shutdown frame
	Terminate time.Duration `yaml:"term_grace" range:"0.01..600" unit:"s" help:"From SIGTERM to SIGKILL."`
}

// fenceGraces are the graces on a fenced node, whose lease ends in less than a second: every program is killed within
// 0.7 s.
var fenceGraces = Graces{Cancel: 200 * time.Millisecond, Shutdown: 200 * time.Millisecond, Terminate: 500 * time.Millisecond}

// DefaultGraces returns the graces that hold where none is set.
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

// below says which step follows which. The order stands only here.
var below = map[Step]Step{
	StepCancel:    StepTerminate,
	StepShutdown:  StepTerminate,
	StepTerminate: StepKill,
	StepKill:      StepNone,
}

// Ladder is a stop in progress: a value that knows the next step and when it is due. It reads no clock. The zero Ladder
// has no steps. A ladder is bound to its Target. Compare the target before each step, so that a late timer never stops
// other work.
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

// Fence ends work that this node may not continue, in 0.7 s at most: a cancel frame where there are frames and a run,
// then SIGTERM, then SIGKILL.
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

// Next returns the step that is due at now, or StepNone, and the ladder that follows. The grace of the returned step
// counts from now, so each step has its full grace even if the caller is late.
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

// Hasten returns a ladder whose next step is due now. It serves a second request to stop.
func (l Ladder) Hasten(now time.Time) Ladder {
	if l.next != StepNone && now.Before(l.due) {
		l.due = now
	}
	return l
}

// Stops reports whether the ladder is bound to exactly this target.
func (l Ladder) Stops(target Target) bool { return l.Target == target }
