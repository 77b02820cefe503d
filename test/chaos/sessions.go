package chaos

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// SessionCall is one call of a session's counter, which is in the state of the session and incremented by each call:
// the request, the times, and the answer.
type SessionCall struct {
	Session           string
	Key               string        // of the call, for the trace
	Invoked, Returned time.Duration // by the callers' clock; the call has its effect, if any, in between
	// Done: it completed, and the fields below are its result. Otherwise its worker ended with it, and the increment was
	// lost with the worker.
	Done   bool
	Count  int
	Epoch  int64
	Worker string // the worker that ran it
	Lost   bool   // it was told that state was lost
	Behind int    // with Lost: how many finished calls the given state does not include; 0: there was no state
}

func (c SessionCall) String() string {
	text := fmt.Sprintf("call %s from %s to %s: ", c.Key, c.Invoked.Round(time.Millisecond), c.Returned.Round(time.Millisecond))
	if !c.Done {
		return text + "did not complete"
	}
	return text + fmt.Sprintf("count %d epoch %d worker %s lost %t behind %d", c.Count, c.Epoch, c.Worker, c.Lost, c.Behind)
}

// counter is a session's counter, as the last call left it that completed. It is comparable.
type counter struct {
	counts string // what each call that completed has returned, in order, of four bytes each: an older one may come back
	epoch  int64
	worker string // of the epoch
}

// countSize is the length of one count in counter.counts.
const countSize = 4

// back is the count as it was so many completed calls ago; ok is false where there were fewer.
func (s counter) back(calls int) (count int, ok bool) {
	at := len(s.counts) - (calls+1)*countSize
	if at < 0 {
		return 0, calls == len(s.counts)/countSize
	}
	return int(binary.BigEndian.Uint32([]byte(s.counts[at : at+countSize]))), true
}

// next is what a call leaves of the counter; ok is false where it cannot have returned what it did: one that finds another
// count than was left must have been told of a loss, and of how many calls; and one of the same epoch must have met the
// same worker.
func (s counter) next(c *SessionCall) (after counter, ok bool) {
	if !c.Done {
		return s, true
	}
	after = counter{counts: string(binary.BigEndian.AppendUint32([]byte(s.counts), uint32(c.Count))), epoch: c.Epoch, worker: c.Worker}
	moved := c.Epoch > s.epoch
	if !moved && (c.Epoch != s.epoch || c.Worker != s.worker || c.Lost) {
		return after, false
	}
	if c.Lost && c.Behind == 0 {
		return after, c.Count == 1
	}
	left, known := s.back(c.Behind) // not lost: of the last call
	return after, known && c.Count == left+1
}

// sessionModel is the specification of sessions' counters, each on its own.
var sessionModel = porcupine.Model{
	Partition: bySession,
	Init:      func() any { return counter{} },
	Step: func(state, input, _ any) (bool, any) {
		after, ok := state.(counter).next(input.(*SessionCall))
		return ok, after
	},
}

// bySession parts a history into those of single sessions.
func bySession(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, op := range history {
		of := op.Input.(*SessionCall).Session
		parts[of] = append(parts[of], op)
	}
	return slices.Collect(maps.Values(parts))
}

// CheckSessions returns the sessions whose calls are not linearizable: there is no order of the calls, each within its
// time, in which every call finds the state of the previous one or is told of the loss. The limit bounds the search. If
// the search ends undecided, that is a violation too.
func CheckSessions(calls []SessionCall, limit time.Duration) (found []Violation) {
	history := make([]porcupine.Operation, len(calls))
	for i := range calls {
		c := &calls[i]
		history[i] = porcupine.Operation{ClientId: i, Input: c, Call: int64(c.Invoked), Return: int64(c.Returned)}
	}
	whole := porcupine.CheckOperationsTimeout(sessionModel, history, limit)
	if whole == porcupine.Ok {
		return nil
	}
	for _, part := range bySession(history) {
		if result := porcupine.CheckOperationsTimeout(sessionModel, part, limit); result != porcupine.Ok {
			found = append(found, unlinear(part, result))
		}
	}
	if len(found) == 0 {
		found = append(found, Violation{Rule: linearRule, What: fmt.Sprintf("not decided within %s: %s", limit, whole)})
	}
	slices.SortFunc(found, func(a, b Violation) int { return cmp.Compare(a.What, b.What) })
	return found
}

const linearRule = "session_is_linear"

// unlinear tells of a session's calls, which have no order.
func unlinear(part []porcupine.Operation, result porcupine.CheckResult) Violation {
	slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	v := Violation{Rule: linearRule, What: fmt.Sprintf("the calls of session %s have no order: %s", part[0].Input.(*SessionCall).Session, result)}
	for _, op := range part {
		v.Trace = append(v.Trace, op.Input.(*SessionCall).String())
	}
	return v
}
