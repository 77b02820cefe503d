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

// SessionCall is one call that increments a counter in the state of a session: the request, its times, and the answer.
type SessionCall struct {
	Session           string
	Key               string        // the call's key, for the trace
	Invoked, Returned time.Duration // by the callers' clock; an effect of the call is between them
	// Done: the call completed, and the fields below are its result. Otherwise its worker ended during the call, and the
	// increment was lost with the worker.
	Done   bool
	Count  int
	Epoch  int64
	Worker string // the worker that ran it
	Lost   bool   // the call was informed of a loss of state
	Behind int    // with Lost: how many finished calls the restored state does not include; 0: no state was restored
}

func (c SessionCall) String() string {
	text := fmt.Sprintf("call %s from %s to %s: ", c.Key, c.Invoked.Round(time.Millisecond), c.Returned.Round(time.Millisecond))
	if !c.Done {
		return text + "did not complete"
	}
	return text + fmt.Sprintf("count %d epoch %d worker %s lost %t behind %d", c.Count, c.Epoch, c.Worker, c.Lost, c.Behind)
}

// counter is the state of a session's counter after the last completed call. It is comparable.
type counter struct {
	counts string // the results of all completed calls, in order, four bytes each: an older state may be restored
	epoch  int64
	worker string // the epoch's worker
}

// countSize is the length of one count in counter.counts.
const countSize = 4

// back is the count before the last completed calls, so many of them. ok is false if there were fewer.
func (s counter) back(calls int) (count int, ok bool) {
	at := len(s.counts) - (calls+1)*countSize
	if at < 0 {
		return 0, calls == len(s.counts)/countSize
	}
	return int(binary.BigEndian.Uint32([]byte(s.counts[at : at+countSize]))), true
}

// next is the counter after a call. ok is false if the call's result is not possible: a call that finds another count than the
// last one must have been informed of a loss and of its size, and a call of the same epoch must run on the same worker.
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
	left, known := s.back(c.Behind) // without a loss this is the last call's count
	return after, known && c.Count == left+1
}

// sessionModel is the specification of a session's counter. Each session is checked alone.
var sessionModel = porcupine.Model{
	Partition: bySession,
	Init:      func() any { return counter{} },
	Step: func(state, input, _ any) (bool, any) {
		after, ok := state.(counter).next(input.(*SessionCall))
		return ok, after
	},
}

// bySession divides a history by session.
func bySession(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, op := range history {
		of := op.Input.(*SessionCall).Session
		parts[of] = append(parts[of], op)
	}
	return slices.Collect(maps.Values(parts))
}

// CheckSessions returns the sessions whose calls are not linearizable: there is no order of the calls, each within its time, in
// which every call finds the state of the previous one or is informed of the loss. The limit bounds the search. A search that
// ends undecided is a violation too.
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
			found = append(found, withoutOrder(part, result))
		}
	}
	if len(found) == 0 {
		found = append(found, Violation{Rule: linearRule, What: fmt.Sprintf("not decided within %s: %s", limit, whole)})
	}
	slices.SortFunc(found, func(a, b Violation) int { return cmp.Compare(a.What, b.What) })
	return found
}

const linearRule = "session_is_linear"

// withoutOrder is the violation of a session whose calls have no order.
func withoutOrder(part []porcupine.Operation, result porcupine.CheckResult) Violation {
	slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	v := Violation{Rule: linearRule, What: fmt.Sprintf("the calls of session %s have no order: %s", part[0].Input.(*SessionCall).Session, result)}
	for _, op := range part {
		v.Trace = append(v.Trace, op.Input.(*SessionCall).String())
	}
	return v
}
