package differences

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// Entry adds an entry of the journal, but for conditions of pools.
func (d *Differences) Entry(e *messages.JournalEntry) {
	if e.Kind == messages.JournalNode && e.What == "joined" {
		var of struct{ Name string }
		if json.Unmarshal(e.Detail, &of) == nil && of.Name != "" {
			d.Name(e.Subject, of.Name)
		}
	}
	in, within := d.at(e.At)
	if !within {
		return
	}
	switch e.Kind {
	case messages.JournalNode:
		d.note(Node, e.What, d.NodeOf(e.Subject), "", in, 1)
	case messages.JournalServer:
		d.note(Server, e.What, e.Subject, "", in, 1)
	case messages.JournalRouter:
		if e.What == "taken" {
			d.note(Pool, Routed, e.Subject, "", in, 1)
		}
	case messages.JournalSession:
		if pool, _, ok := strings.Cut(e.Subject, "/"); ok && e.What == journal.SessionUnbound {
			reason, _, _ := strings.Cut(e.Reason, ":") // behind it stands what somebody said
			d.note(Session, reason, pool, "", in, 1)
		}
	case messages.JournalWorker:
		if e.What == lifecycle.ToldDegraded || e.What == lifecycle.ToldEnded || e.What == lifecycle.ToldStartFailed {
			d.note(Worker, Troubled, e.Subject, "", in, 1)
		}
	case messages.JournalOperator:
		d.note(Command, e.What, e.What, "", in, 1)
	case messages.JournalMark:
		d.note(Mark, Marked, e.Subject, "", in, 1)
	case messages.JournalGap:
		d.gap(e)
	}
}

// NodeOf is the name of the node that an incarnation is a boot of, or the incarnation where that is not known.
func (d *Differences) NodeOf(incarnation string) string {
	if name := d.names[incarnation]; name != "" {
		return name
	}
	return incarnation
}

// gap says that entries are missing.
func (d *Differences) gap(e *messages.JournalEntry) {
	note := "the journal lacks entries about " + e.Subject + ", so what is said of them may be wrong"
	if !slices.Contains(d.Notes, note) {
		d.Notes = append(d.Notes, note)
	}
}

// Conditions adds the entries about the conditions of pools, by time. They begin journal.ConditionLasts before the range before. Ends
// has when incarnations ended, where that is recorded: from then on they hold no condition.
func (d *Differences) Conditions(entries []messages.JournalEntry, ends map[messages.Incarnation]time.Time) {
	type writer struct {
		by   messages.Incarnation
		pool string
	}
	last := map[writer]*messages.JournalEntry{}
	for i := range entries {
		e := &entries[i]
		if e.Kind != messages.JournalPool || e.What != journal.ConditionChanged {
			continue
		}
		k := writer{e.Incarnation, e.Subject}
		if before := last[k]; before != nil {
			d.held(before, e.At, ends)
		}
		last[k] = e
	}
	for _, e := range last {
		d.held(e, d.To, ends)
	}
}

// held adds for how long an entry's condition held before the next one.
func (d *Differences) held(e *messages.JournalEntry, next time.Time, ends map[messages.Incarnation]time.Time) {
	end := earlier(next, e.At.Add(journal.ConditionLasts))
	if died, known := ends[e.Incarnation]; known {
		end = earlier(end, died)
	}
	if d.Until.Before(end) {
		end = d.Until
	}
	var detail journal.ConditionDetail
	if len(e.Detail) == 0 || json.Unmarshal(e.Detail, &detail) != nil || detail.Until.IsZero() {
		d.lasted(e.Subject, e.Reason, e.At, end, 1)
		return
	}
	until := earlier(detail.Until, end)
	for reason, share := range detail.Shares {
		d.lasted(e.Subject, reason, e.At, until, share)
	}
	d.lasted(e.Subject, detail.Then, until, end, 1)
}

// lasted adds for how long a pool was in a condition, in each range.
func (d *Differences) lasted(pool, reason string, from, to time.Time, share float64) {
	for in, span := range [2][2]time.Time{{d.From, d.To}, {d.Before, d.From}} {
		begin, end := from, earlier(to, span[1])
		if begin.Before(span[0]) {
			begin = span[0]
		}
		if begin.Before(end) {
			d.note(Pool, reason, pool, "", in, end.Sub(begin).Seconds()*share)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
