package roster

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Test names: executions are letters with an optional number (a, b, c7), workers w0, w1, …; both read back.

func idOf(name string) (id messages.ExecutionID) {
	copy(id[:8], name)
	return id
}

func nameOf(id messages.ExecutionID) string { return strings.TrimRight(string(id[:8]), "\x00") }

// seqOf is the store's order of a name: letters first, then its number.
func seqOf(name string) int64 {
	n, _ := strconv.Atoi(name[1:])
	return int64(name[0]-'a'+1)*1000 + int64(n)
}

func keyOf(name string) messages.WorkerKey {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "w"))
	return slotKey(n)
}

// farSlot is the first slot that is on another node than the others.
const farSlot = 3

func slotKey(n int) messages.WorkerKey {
	k := messages.WorkerKey{Pool: "p", Slot: messages.Slot(n)}
	binary.BigEndian.PutUint32(k.Incarnation[:], 1)
	if n >= farSlot {
		k.Incarnation[0] = 1
	}
	return k
}

func slotName(k messages.WorkerKey) string { return fmt.Sprintf("w%d", k.Slot) }

func placementOf(text string) messages.Placement {
	id, attempt, _ := strings.Cut(text, "#")
	n, _ := strconv.Atoi(attempt)
	return messages.Placement{Execution: idOf(id), Attempt: messages.Attempt(n)}
}

func placementName(p messages.Placement) string {
	return fmt.Sprintf("%s#%d", nameOf(p.Execution), p.Attempt)
}

func placementNames(ps []messages.Placement) string {
	var all []string
	for _, p := range ps {
		all = append(all, placementName(p))
	}
	return strings.Join(all, " ")
}

// render writes an effect as a transcript line.
func render(e Effect) string {
	switch e := e.(type) {
	case Load:
		s := fmt.Sprintf("load limit=%d heads=%d", e.Limit, e.Heads)
		if e.AfterSeq > 0 {
			s += fmt.Sprintf(" after=%d/%d", e.AfterPriority, e.AfterSeq)
		}
		return s
	case Place:
		return "place " + renderAssignments(e.Assignments)
	case Accept:
		return "accept " + renderAssignments(e.Assignments)
	case Publish:
		directly := ""
		if e.Direct {
			directly = " directly"
		}
		return "publish " + slotName(e.Worker) + " " + placementNames(e.Placements) + directly
	case TakeBack:
		s := "take_back " + placementName(e.Placement) + " " + e.Reason
		if e.Delay > 0 {
			s += " delay=" + e.Delay.String()
		}
		return s
	case Fail:
		return fmt.Sprintf("fail %s#%d %s: %s", nameOf(e.ID), e.Attempt, e.Code, e.Message)
	}
	return renderSession(e)
}

func renderAssignments(list []Assignment) string {
	var all []string
	for _, a := range list {
		all = append(all, renderAssignment(a))
	}
	return strings.Join(all, ", ")
}

func renderAssignment(a Assignment) string {
	s := fmt.Sprintf("%s#%d→%s", nameOf(a.ID), a.Attempt, slotName(a.Worker))
	if a.Direct {
		s += " (not stored)"
	}
	if a.Generation > 0 {
		s += fmt.Sprintf(" (claimed by generation %d)", a.Generation)
	}
	if u := a.Session; u != nil {
		s += fmt.Sprintf(" (%s epoch=%d %s", u.Session, u.Epoch, u.Effect)
		for _, flag := range []struct {
			set  bool
			word string
		}{{u.Bind, " bind"}, {!u.Hit, " beside"}, {u.Lost, " told"}} {
			if flag.set {
				s += flag.word
			}
		}
		s += ")"
	}
	return s
}

func renderSession(e Effect) string {
	switch e := e.(type) {
	case EndSession:
		return fmt.Sprintf("end_session %s %s epoch=%d", slotName(e.Worker), e.Session, e.Epoch)
	case Unbind:
		return fmt.Sprintf("unbind %s epoch=%d %s", e.Session, e.Epoch, e.Reason)
	case Reload:
		return "reload " + e.Session
	case Sleep:
		return "sleep " + e.Until.Sub(epoch0).Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%T", e)
}
