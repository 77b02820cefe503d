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

// outcomeOfLastAttempt: a result says itself which execution and attempt made it, and that is the row's.
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

// outcomeIsWanted: the outcome is one that this work can have.
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

// cancelledOnRequest: nothing is cancelled that nobody asked to cancel.
func cancelledOnRequest(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		if e.Status == messages.Cancelled && !x.cancelled[e.ID] {
			report(Violation{Execution: e.ID, What: "was cancelled, and nobody asked for it", Trace: e.Trace()})
		}
	}
}

// expiredByItsLetter: what failed because nobody picked it up was dead-lettered, as the attempt that failed.
func expiredByItsLetter(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		last := messages.Placement{Execution: e.ID, Attempt: e.Attempt}
		if e.Status == messages.Failed && e.Code == messages.CodeQueueTimeout && !x.letters[last] {
			report(Violation{
				Execution: e.ID, What: fmt.Sprintf("failed as expired, and attempt %d was never dead-lettered", e.Attempt), Trace: append(e.Trace(), x.deaths(e)...),
			})
		}
	}
}

// deaths are the letters of the execution's attempts.
func (x *index) deaths(e *Stored) []string {
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

// effectIsKnown: nothing ran that the store does not know, or as an attempt that was not made yet.
func effectIsKnown(x *index, report func(Violation)) {
	for at, f := range x.Effects {
		e := x.byID[f.Execution]
		if e == nil || f.Attempt < 1 || f.Attempt > e.Attempt {
			report(Violation{Execution: f.Execution, What: "ran, and the store knows of no such attempt", Trace: x.lines(at)})
		}
	}
}

// startedOnce: no execution starts twice unless it may be repeated, and no attempt ever does.
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

// NotStarted reports whether a rescue with this reason returned an execution that its worker had claimed and not
// started: the worker was about to leave, or ended before it got the execution.
func NotStarted(reason string) bool { return strings.HasPrefix(reason, "never started: ") }

// noClaimTwice: what is not idempotent is claimed once, but for a claim that was given back before its start. It holds
// for work too that leaves no effects.
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

// noOverlap: once a newer attempt has started, or a retry, nothing of an older one is seen again.
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

// endedBeforeRepeated: by the clock that all processes share, no attempt begins before the last sign of the one before it.
// It is more exact than the order of the lines: a line may be written some time after what it tells of.
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

// gap lies between the last sign of an attempt and the start of the next one that was seen.
type gap struct {
	last, next int // positions in Effects
	ended, at  time.Duration
}

func (g gap) length() time.Duration { return g.at - g.ended }

// gaps are those of an execution's attempts, and of a last one before its retry.
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
	slices.SortStableFunc(starts, func(a, b int) int { // a retry's attempts come after all of its execution's
		f, g := x.Effects[a], x.Effects[b]
		if f.Execution != g.Execution {
			return boolOrder(f.Execution == e.ID, g.Execution == e.ID)
		}
		return int(f.Attempt) - int(g.Attempt)
	})
	for i := 1; i < len(starts); i++ {
		f, next := x.Effects[starts[i-1]], x.Effects[starts[i]]
		if f.Execution == next.Execution && f.Attempt == next.Attempt {
			continue // that is for startedOnce to say
		}
		g := last[messages.Placement{Execution: f.Execution, Attempt: f.Attempt}]
		g.next, g.at = starts[i], next.At
		all = append(all, g)
	}
	return all
}

// boolOrder puts what is true first.
func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// Gaps returns the times between the last sign of each attempt and the start of the execution's next one, shortest
// first.
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

// sessionOneAtATime: of one session nothing runs beside something else.
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

// sessionUnbrokenOrTold: the session's own counter goes on by one, or the execution was told that state is lost. It may also go
// on from the last run that did not take its worker along: of those after it, whose outcomes said so, no state is owed, and
// that of the one before them may have been kept.
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
					trace = append(x.lines(before, at), x.byID[x.Effects[before].Execution].story()...)
				}
				trace = append(trace, x.byID[f.Execution].story()...)
				report(Violation{Execution: f.Execution, What: fmt.Sprintf("session %s counts %d after %d, and was told of no loss", f.Session, f.Count, count), Trace: trace})
			}
			before = at
			if e := x.byID[f.Execution]; e != nil && store.LeavesState(e.Status) {
				left = f.Count
			}
		}
	}
}

// sessionEpochOneWorker: all that runs in one epoch of a session runs in one process.
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
			first[of] = at // each change once
		}
	}
}

// retryChain: a retry is one more of the same chain, made of an execution that ended without success, once.
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
