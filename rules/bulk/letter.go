package bulk

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// What a dead letter has become by a person.
const (
	Requeued  = "requeued"
	Discarded = "discarded"
)

// Letter is what an operation knows of a dead letter, with the state of the execution that it names.
type Letter struct {
	ID         int64
	At         time.Time
	Reason     string // why the message came back
	Resolution string // what it has become
	Action     string
	Execution  messages.ExecutionID // zero: it names none
	Status     messages.Status      // of the execution; zero: the store does not have it
	RetriedAs  messages.ExecutionID
}

// JudgeLetter says why an operation leaves a dead letter as it is; empty: it acts on it. The kind is Requeue or Discard.
func JudgeLetter(kind Kind, l *Letter) Why {
	switch {
	case l.Resolution == Requeued:
		return AlreadyRequeued
	case l.Resolution == Discarded:
		return AlreadyDiscarded
	case kind == Discard:
		return ""
	case l.Execution.IsZero():
		return NoExecution
	case l.Status == messages.StatusInvalid:
		return Unknown
	}
	return Judge(Retry, &messages.Execution{Status: l.Status, RetriedAs: l.RetriedAs})
}

// AddLetter counts one dead letter.
func (t *Tally) AddLetter(l *Letter) {
	if why := JudgeLetter(t.Kind, l); why != "" {
		t.Skip(why)
		return
	}
	t.Matched++
	t.Count++
	t.Reason[l.Reason]++
	t.action(l.Action)
	if len(t.Letters) < ExamplesMax {
		t.Letters = append(t.Letters, *l)
	}
}
