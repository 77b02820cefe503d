package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Violation is one broken rule.
type Violation struct {
	Rule      string
	Execution messages.ExecutionID // zero if a session or a key is concerned
	What      string
	Trace     []string // only the lines that show the violation, oldest first
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: execution %s: %s\n    %s", v.Rule, v.Execution, v.What, strings.Join(v.Trace, "\n    "))
}

// rules are all rules. Each one gets the whole history and reports every violation.
var rules = []struct {
	name  string
	check func(*index, func(Violation))
}{
	{"accepted_is_kept", acceptedIsKept},
	{"one_key_one_execution", oneKeyOneExecution},
	{"nothing_uninvited", nothingUninvited},
	{"has_an_outcome", hasAnOutcome},
	{"one_outcome", oneOutcome},
	{"history_is_whole", historyIsWhole},
	{"outcome_of_last_attempt", outcomeOfLastAttempt},
	{"outcome_is_wanted", outcomeIsWanted},
	{"cancelled_on_request", cancelledOnRequest},
	{"expired_by_its_letter", expiredByItsLetter},
	{"completed_really_ran", completedReallyRan},
	{"effect_is_known", effectIsKnown},
	{"started_once", startedOnce},
	{"no_claim_twice", noClaimTwice},
	{"no_overlap", noOverlap},
	{"ended_before_repeated", endedBeforeRepeated},
	{"session_one_at_a_time", sessionOneAtATime},
	{"session_unbroken_or_told", sessionUnbrokenOrTold},
	{"session_epoch_one_worker", sessionEpochOneWorker},
	{"retry_chain", retryChain},
}

// Rules returns the names of all rules.
func Rules() []string {
	names := make([]string, len(rules))
	for i, rule := range rules {
		names[i] = rule.name
	}
	return names
}

// Check returns every violation, in the order of the rules.
func Check(h *History) []Violation {
	x := newIndex(h.Filled())
	var found []Violation
	for _, rule := range rules {
		rule.check(x, func(v Violation) {
			v.Rule = rule.name
			found = append(found, v)
		})
	}
	return found
}

// index is a history with maps for the rules' lookups.
type index struct {
	*History
	byID      map[messages.ExecutionID]*Stored
	submits   map[string]*Call // the first call of each key
	cancelled map[messages.ExecutionID]bool
	effects   map[messages.ExecutionID][]int // positions in Effects
	letters   map[messages.Placement]bool
	sessions  map[string][]int
}

func newIndex(h *History) *index {
	x := &index{
		History: h, byID: map[messages.ExecutionID]*Stored{}, submits: map[string]*Call{},
		cancelled: map[messages.ExecutionID]bool{}, effects: map[messages.ExecutionID][]int{}, sessions: map[string][]int{},
		letters: map[messages.Placement]bool{},
	}
	for i := range h.Executions {
		x.byID[h.Executions[i].ID] = &h.Executions[i]
	}
	for i := range h.Calls {
		c := &h.Calls[i]
		switch {
		case c.State == Invoked && c.Op == "submit" && x.submits[c.Key] == nil:
			x.submits[c.Key] = c
		case c.State == Invoked && c.Op == "cancel":
			x.cancelled[c.ID] = true
		}
	}
	for _, p := range h.DeadLetters {
		x.letters[p] = true
	}
	for i, e := range h.Effects {
		x.effects[e.Execution] = append(x.effects[e.Execution], i)
		if e.Session != "" {
			x.sessions[e.Session] = append(x.sessions[e.Session], i)
		}
	}
	return x
}

// root returns the first execution of the chain of retries.
func (x *index) root(e *Stored) *Stored {
	if first := x.byID[e.Original]; first != nil {
		return first
	}
	return e
}

func (x *index) lines(positions ...int) []string {
	texts := make([]string, len(positions))
	for i, at := range positions {
		texts[i] = fmt.Sprintf("line %d: %s of %s", at+1, x.Effects[at], x.Effects[at].Execution)
	}
	return texts
}

func (e *Stored) row() string {
	text := fmt.Sprintf("stored %s %s %s attempt %d", e.ID, e.Action, e.Status, e.Attempt)
	if e.Code != "" {
		text += " code " + string(e.Code)
	}
	return text
}

// Trace returns the row with all of its events.
func (e *Stored) Trace() []string {
	lines := []string{e.row()}
	for _, ev := range e.Events {
		lines = append(lines, eventLine(ev))
	}
	return lines
}

// traceOf is the trace of an execution. The execution may be nil.
func (e *Stored) traceOf() []string {
	if e == nil {
		return nil
	}
	return e.Trace()
}

func eventLine(ev store.Event) string {
	return fmt.Sprintf("event %s %s attempt %d %s → %s worker %q %s", ev.At.Format("15:04:05.000"), ev.Kind, ev.Attempt, ev.From, ev.To, ev.Worker, ev.Reason)
}

// Changes returns the events that changed the status. The other events are notes: for example, the retry of an execution is a
// note beside the change that caused it.
func (e *Stored) Changes() []store.Event {
	return slices.DeleteFunc(slices.Clone(e.Events), isNote)
}

// isNote reports whether an event changed nothing. The take-back of a placement that was handed over directly changes the attempt
// alone.
func isNote(ev store.Event) bool {
	return ev.From == ev.To && ev.Kind != "take_back" || ev.Kind == "retry"
}

// Placed reports whether an event puts an execution on a worker: its placement, or the claim of one that was handed over directly.
func Placed(ev store.Event) bool {
	return ev.Kind == "place" || ev.Kind == "claim" && ev.From == messages.Requested
}

// begins reports whether an event begins an attempt: a placement, or the take-back of one that the store did not have.
func begins(ev store.Event) bool {
	return Placed(ev) || ev.Kind == "take_back" && ev.From == messages.Requested
}

// acceptedIsKept: every execution whose submission was accepted is stored.
func acceptedIsKept(x *index, report func(Violation)) {
	for _, c := range x.Calls {
		if c.Op == "submit" && c.State == OK && x.byID[c.ID] == nil {
			report(Violation{Execution: c.ID, What: "was accepted and is not stored", Trace: []string{"submit ok, key " + c.Key}})
		}
	}
}

// oneKeyOneExecution: one idempotency key gives one execution, however often its caller repeats the call.
func oneKeyOneExecution(x *index, report func(Violation)) {
	seen := map[string]messages.ExecutionID{}
	note := func(key string, id messages.ExecutionID, from string) {
		first, known := seen[key]
		if known && first != id {
			report(Violation{Execution: id, What: "is a second execution of key " + key, Trace: []string{from + " gives " + id.String(), "before it: " + first.String()}})
		}
		if !known {
			seen[key] = id
		}
	}
	for _, c := range x.Calls {
		if c.Op == "submit" && c.State == OK && x.byID[c.ID] != nil {
			note(c.Key, c.ID, "an answer")
		}
	}
	for i := range x.Executions {
		if e := &x.Executions[i]; e.Original.IsZero() && x.submits[e.Key] != nil {
			note(e.Key, e.ID, "the store")
		}
	}
}

// nothingUninvited: the store has only executions that callers submitted, and retries of them.
func nothingUninvited(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		if x.submits[x.root(e).Key] == nil {
			report(Violation{Execution: e.ID, What: "nobody submitted it", Trace: []string{e.row()}})
		}
	}
}

// hasAnOutcome: every execution has ended.
func hasAnOutcome(x *index, report func(Violation)) {
	for i := range x.Executions {
		if e := &x.Executions[i]; !e.Status.Terminal() {
			report(Violation{Execution: e.ID, What: "has no outcome", Trace: e.Trace()})
		}
	}
}

// oneOutcome: an execution reaches a terminal status once, and no change follows.
func oneOutcome(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		ended := false
		for _, ev := range e.Changes() {
			if ended {
				report(Violation{Execution: e.ID, What: "changed after its outcome", Trace: e.Trace()})
				break
			}
			ended = ev.To.Terminal()
		}
	}
}

// historyIsWhole: each change starts from the status that the previous change set, the placements number the attempts without
// gaps, and the row has the status and attempt of the last change.
func historyIsWhole(x *index, report func(Violation)) {
	for i := range x.Executions {
		e := &x.Executions[i]
		if what := e.gap(); what != "" {
			report(Violation{Execution: e.ID, What: what, Trace: e.Trace()})
		}
	}
}

func (e *Stored) gap() string {
	at, attempt := messages.Requested, messages.Attempt(0)
	for _, ev := range e.Changes() {
		if ev.From != at {
			return fmt.Sprintf("a change begins at %s where the row stood at %s", ev.From, at)
		}
		if begins(ev) {
			attempt++
		}
		if ev.Attempt != attempt {
			return fmt.Sprintf("a change of attempt %d stands where attempt %d was current", ev.Attempt, attempt)
		}
		if at = ev.To; at.Terminal() {
			break
		}
	}
	if at != e.Status || attempt != e.Attempt {
		return fmt.Sprintf("the row says %s attempt %d, its changes end at %s attempt %d", e.Status, e.Attempt, at, attempt)
	}
	return ""
}
