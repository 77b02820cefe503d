package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// outcomeOfLastAttempt: the result names the execution and the attempt of the row.
func outcomeOfLastAttempt(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		if !e.Traced || e.Status != messages.Completed {
			continue
		}
		var by struct {
			Execution messages.ExecutionID `json:"execution"`
			Attempt   messages.Attempt     `json:"attempt"`
		}
		if err := json.Unmarshal(e.Result, &by); err != nil || by.Execution != e.ID || by.Attempt != e.Attempt {
			report(Violation{
				Execution: e.ID, What: "its result was made by another attempt or execution",
				Trace: []string{e.row(), "result " + string(e.Result)},
			})
		}
	}
}

// outcomeIsWanted: the outcome is one of the possible outcomes of the work.
func outcomeIsWanted(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		c := x.submits[x.root(e).Key]
		if c == nil || !e.Status.Terminal() {
			continue
		}
		if !slices.Contains(c.Want, e.Status) {
			report(Violation{Execution: e.ID, What: fmt.Sprintf("ended %s, which its work cannot: want %v", e.Status, c.Want), Trace: e.Trace()})
		} else if e.Status == messages.Failed && len(c.Codes) > 0 && !slices.Contains(c.Codes, e.Code) {
			report(Violation{Execution: e.ID, What: fmt.Sprintf("failed with %s, want one of %v", e.Code, c.Codes), Trace: e.Trace()})
		}
	}
}

// cancelledOnRequest: an execution is cancelled only if a caller has cancelled it.
func cancelledOnRequest(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		if e.Status == messages.Cancelled && !x.cancelled[e.ID] {
			report(Violation{Execution: e.ID, What: "was cancelled, and nobody asked for it", Trace: e.Trace()})
		}
	}
}

// expiredByItsLetter: if an execution failed because its message expired, the message of the attempt that failed was
// dead-lettered.
func expiredByItsLetter(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		last := messages.Placement{Execution: e.ID, Attempt: e.Attempt}
		if e.Status == messages.Failed && e.Code == messages.CodeQueueTimeout && !x.letters[last] {
			report(Violation{
				Execution: e.ID, What: fmt.Sprintf("failed as expired, and attempt %d was never dead-lettered", e.Attempt), Trace: append(e.Trace(), x.deadLetters(e)...),
			})
		}
	}
}

// deadLetters are the dead letters of the execution's attempts.
func (x *index) deadLetters(e *Stored) []string {
	var lines []string
	for _, p := range x.DeadLetters {
		if p.Execution == e.ID {
			lines = append(lines, fmt.Sprintf("dead letter of attempt %d", p.Attempt))
		}
	}
	return lines
}

// completedReallyRan: a completed execution has a start and an end of the attempt that completed it.
func completedReallyRan(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		if !e.Traced || e.Status != messages.Completed {
			continue
		}
		kinds := map[string]bool{}
		for _, at := range x.effects[e.ID] {
			if x.Effects[at].Attempt == e.Attempt {
				kinds[x.Effects[at].Kind] = true
			}
		}
		if !kinds["start"] || !kinds["end"] {
			report(Violation{
				Execution: e.ID, What: "is completed, and its last attempt left no start and end",
				Trace: append(e.Trace(), x.lines(x.effects[e.ID]...)...),
			})
		}
	}
}

// effectIsKnown: each side effect belongs to a stored execution and to an attempt that was placed.
func effectIsKnown(x *index, report func(Violation)) {
	for at, f := range x.Effects {
		e := x.byID[f.Execution]
		if e == nil || f.Attempt < 1 || f.Attempt > e.Attempt {
			report(Violation{Execution: f.Execution, What: "ran, and the store knows of no such attempt", Trace: x.lines(at)})
		}
	}
}

// startedOnce: an execution starts twice only if it is idempotent, and an attempt never does.
func startedOnce(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		first := map[messages.Attempt]int{}
		before := -1
		for _, at := range x.effects[e.ID] {
			f := x.Effects[at]
			if f.Kind != "start" {
				continue
			}
			if other, again := first[f.Attempt]; again {
				report(Violation{Execution: e.ID, What: fmt.Sprintf("attempt %d started twice", f.Attempt), Trace: append([]string{e.row()}, x.lines(other, at)...)})
			} else if before >= 0 && !e.Idempotent {
				report(Violation{Execution: e.ID, What: "started twice and is not idempotent", Trace: append(e.Trace(), x.lines(before, at)...)})
			}
			first[f.Attempt], before = at, at
		}
	}
}

// NotStarted reports whether a rescue with this reason returned an execution that its worker had claimed and not started: the
// worker was about to leave, or ended before it got the execution.
func NotStarted(reason string) bool { return strings.HasPrefix(reason, "never started: ") }

// noClaimTwice: an execution that is not idempotent is claimed once. A claim that was given back before the start does not count.
// The rule also covers work without side effects.
func noClaimTwice(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		if e.Idempotent {
			continue
		}
		claims := 0
		for _, ev := range e.Changes() {
			switch {
			case ev.Kind == "claim":
				claims++
			case ev.Kind == "rescue" && NotStarted(ev.Reason):
				claims--
			}
		}
		if claims > 1 {
			report(Violation{Execution: e.ID, What: fmt.Sprintf("was claimed %d times and is not idempotent", claims), Trace: e.Trace()})
		}
	}
}

// noOverlap: after the start of a newer attempt, or of a retry, no side effect of an older attempt follows.
func noOverlap(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		newest, started := messages.Attempt(0), -1
		for _, at := range x.effects[e.ID] {
			f := x.Effects[at]
			if f.Kind == "start" && f.Attempt > newest {
				newest, started = f.Attempt, at
			} else if f.Attempt < newest {
				report(Violation{Execution: e.ID, What: fmt.Sprintf("attempt %d goes on beside attempt %d", f.Attempt, newest), Trace: x.lines(started, at)})
				break
			}
		}
		x.retryOverlap(e, report)
	}
}

func (x *index) retryOverlap(e *Stored, report func(Violation)) {
	mine, next := x.effects[e.ID], x.effects[e.RetriedAs]
	if len(mine) == 0 || len(next) == 0 || e.RetriedAs.IsZero() {
		return
	}
	if last := mine[len(mine)-1]; last > next[0] {
		report(Violation{Execution: e.ID, What: "goes on beside its own retry", Trace: x.lines(next[0], last)})
	}
}

// endedBeforeRepeated: by the clock that all processes share, an attempt starts only after the last side effect of the previous
// attempt. This is more exact than the order of the lines, because a line may be written some time after its effect.
func endedBeforeRepeated(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		for _, g := range x.gaps(e) {
			if g.length() < 0 {
				report(Violation{
					Execution: e.ID, What: fmt.Sprintf("began again %s before its last attempt had ended", -g.length()),
					Trace: append(e.Trace(), x.lines(g.last, g.next)...),
				})
			}
		}
	}
}

// gap is the time between the last side effect of an attempt and the next start.
type gap struct {
	last, next int // positions in Effects
	ended, at  time.Duration
}

func (g gap) length() time.Duration { return g.at - g.ended }

// gaps are the gaps between an execution's attempts, and between its last attempt and its retry.
func (x *index) gaps(e *Stored) (all []gap) {
	lines := x.effects[e.ID]
	if !e.RetriedAs.IsZero() {
		lines = append(slices.Clone(lines), x.effects[e.RetriedAs]...)
	}
	last := map[messages.Placement]gap{}
	var starts []int
	for _, at := range lines {
		f := x.Effects[at]
		p := messages.Placement{Execution: f.Execution, Attempt: f.Attempt}
		if before, seen := last[p]; f.At > 0 && (!seen || f.At > before.ended) {
			last[p] = gap{last: at, ended: f.At}
		}
		if f.Kind == "start" && f.At > 0 {
			starts = append(starts, at)
		}
	}
	slices.SortStableFunc(starts, func(a, b int) int { // all attempts of the execution come before those of its retry
		f, g := x.Effects[a], x.Effects[b]
		if f.Execution != g.Execution {
			return boolOrder(f.Execution == e.ID, g.Execution == e.ID)
		}
		return int(f.Attempt) - int(g.Attempt)
	})
	for i := 1; i < len(starts); i++ {
		f, next := x.Effects[starts[i-1]], x.Effects[starts[i]]
		if f.Execution == next.Execution && f.Attempt == next.Attempt {
			continue // startedOnce reports this
		}
		g := last[messages.Placement{Execution: f.Execution, Attempt: f.Attempt}]
		g.next, g.at = starts[i], next.At
		all = append(all, g)
	}
	return all
}

// boolOrder sorts true before false.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// Gaps returns the times between the last side effect of each attempt and the start of the execution's next one, shortest first.
func Gaps(h *History) (all []time.Duration) {
	x := newIndex(h)
	for i := range h.Executions {
		for _, g := range x.gaps(&h.Executions[i]) {
			if h.Effects[g.next].Execution == h.Executions[i].ID {
				all = append(all, g.length())
			}
		}
	}
	slices.Sort(all)
	return all
}

// sessionOneAtATime: a session has one run at a time.
func sessionOneAtATime(x *index, report func(Violation)) {
	for _, positions := range x.sessions {
		current, started := messages.Placement{}, -1
		for _, at := range positions {
			f := x.Effects[at]
			p := messages.Placement{Execution: f.Execution, Attempt: f.Attempt}
			if f.Kind == "start" {
				current, started = p, at
			} else if p != current {
				report(Violation{Execution: f.Execution, What: "goes on in session " + f.Session + " beside another", Trace: x.lines(started, at)})
				break
			}
		}
	}
}

// sessionUnbrokenOrTold: the session's counter increases by one, or the execution was informed of a loss. The counter may also
// continue from the last run that did not end together with its worker: the runs after it reported that they ended so, and left
// no state. The state before that run may be the stored one.
func sessionUnbrokenOrTold(x *index, report func(Violation)) {
	for _, positions := range x.sessions {
		before, left := -1, 0
		for _, at := range positions {
			f := x.Effects[at]
			if f.Kind != "start" {
				continue
			}
			count := 0
			if before >= 0 {
				count = x.Effects[before].Count
			}
			if f.Count != count+1 && !f.Lost && (left == 0 || f.Count != left+1) {
				trace := x.lines(at)
				if before >= 0 {
					trace = append(x.lines(before, at), x.byID[x.Effects[before].Execution].traceOf()...)
				}
				trace = append(trace, x.byID[f.Execution].traceOf()...)
				report(Violation{Execution: f.Execution, What: fmt.Sprintf("session %s counts %d after %d, and was told of no loss", f.Session, f.Count, count), Trace: trace})
			}
			before = at
			if e := x.byID[f.Execution]; e != nil && store.LeavesState(e.Status) {
				left = f.Count
			}
		}
	}
}

// sessionEpochOneWorker: all runs of one epoch of a session are in one process.
func sessionEpochOneWorker(x *index, report func(Violation)) {
	type epoch struct {
		session string
		number  int64
	}
	first := map[epoch]int{}
	for at, f := range x.Effects {
		if f.Session == "" {
			continue
		}
		of := epoch{f.Session, f.Epoch}
		before, seen := first[of]
		if !seen {
			first[of] = at
		} else if x.Effects[before].Pid != f.Pid {
			report(Violation{
				Execution: f.Execution, What: fmt.Sprintf("epoch %d of session %s has a second worker", f.Epoch, f.Session), Trace: x.lines(before, at),
			})
			first[of] = at // reports each change once
		}
	}
}

// retryChain: a retry belongs to the same chain. It follows an execution that did not complete, and each execution has at most
// one.
func retryChain(x *index, report func(Violation)) {
	made := map[messages.ExecutionID]*Stored{}
	for i := range x.Executions {
		e := &x.Executions[i]
		if e.RetriedAs.IsZero() {
			continue
		}
		next := x.byID[e.RetriedAs]
		made[e.RetriedAs] = e
		if next == nil || next.RetryCount != e.RetryCount+1 || next.Original != x.root(e).ID || e.Status == messages.Completed {
			report(Violation{Execution: e.ID, What: "names a retry that is none of it: " + e.RetriedAs.String(), Trace: []string{e.row()}})
		}
	}
	for i := range x.Executions {
		if e := &x.Executions[i]; !e.Original.IsZero() && made[e.ID] == nil {
			report(Violation{Execution: e.ID, What: "is a retry that no execution names", Trace: []string{e.row()}})
		}
	}
}
