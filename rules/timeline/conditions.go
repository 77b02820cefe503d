package timeline

import (
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/roster"
)

// held is a condition of a pool, as one router knew it.
type held struct {
	from, to time.Time
	by       messages.Incarnation
	reason   string
	share    float64 // 0: all of the time
}

// allConditions are the conditions of the pool by the journal, each for as long as its writer is known to have held it. What a
// router handed over it does not know from then on.
func (r *reading) allConditions() []held {
	byWriter := map[messages.Incarnation][]messages.JournalEntry{}
	var writers []messages.Incarnation
	for _, e := range r.Conditions {
		if e.Kind != messages.JournalPool || e.What != journal.ConditionChanged {
			continue
		}
		if byWriter[e.Incarnation] == nil {
			writers = append(writers, e.Incarnation)
		}
		byWriter[e.Incarnation] = append(byWriter[e.Incarnation], e)
	}
	var all []held
	for _, writer := range writers {
		entries := byWriter[writer]
		for i := range entries {
			end := r.knownUntil(writer, &entries[len(entries)-1])
			if i+1 < len(entries) {
				end = entries[i+1].At
			}
			all = append(all, r.span(&entries[i], r.beforeGap(writer, entries[i].At, end))...)
		}
	}
	return all
}

// knownUntil is until when the last entry of a writer holds.
func (r *reading) knownUntil(writer messages.Incarnation, last *messages.JournalEntry) time.Time {
	until, known := r.Known[writer]
	if !known || until.Before(last.At) {
		until = last.At
		var d journal.ConditionDetail
		if json.Unmarshal(last.Detail, &d) == nil && d.Until.After(until) {
			until = d.Until
		}
	}
	return until
}

// beforeGap ends a condition where entries of its writer are missing.
func (r *reading) beforeGap(writer messages.Incarnation, from, to time.Time) time.Time {
	for i := range r.Gaps {
		g := &r.Gaps[i]
		if g.Incarnation == writer && g.Subject == string(messages.JournalPool) && !g.At.Before(from) && g.At.Before(to) {
			to = g.At
		}
	}
	return to
}

// span is what one entry says, up to the next one.
func (r *reading) span(e *messages.JournalEntry, end time.Time) []held {
	var d journal.ConditionDetail
	if len(e.Detail) == 0 || json.Unmarshal(e.Detail, &d) != nil || d.Until.IsZero() {
		return keep(held{from: e.At, to: end, by: e.Incarnation, reason: e.Reason})
	}
	until := later(e.At, earlier(d.Until, end))
	reason, share := mostOf(d.Shares)
	list := keep(held{from: e.At, to: until, by: e.Incarnation, reason: reason, share: share})
	return append(list, keep(held{from: until, to: end, by: e.Incarnation, reason: d.Then})...)
}

// shareMin is the least share of a time for which a condition explains it, where the pool had room for the rest.
const shareMin = 0.1

// mostOf is the condition that explains most of a time with several. While the pool had room, others were placed first, so that
// counts only where there is hardly anything else.
func mostOf(shares map[string]float64) (reason string, share float64) {
	reason = roster.Ready.String()
	share = shares[reason]
	found := false
	for _, candidate := range roster.Reasons() {
		word := candidate.String()
		if s := shares[word]; candidate != roster.Ready && s >= shareMin && (!found || s > share) {
			reason, share, found = word, s, true
		}
	}
	return reason, share
}

func keep(h held) []held {
	if !h.from.Before(h.to) || h.reason == roster.Handed.String() {
		return nil
	}
	return []held{h}
}

// conditionFacts turns the conditions into facts. Where several routers knew the pool at once, each for the workers that it reaches,
// what waited could have been placed by any of them: the one that was nearest to place it says what it waited for.
func (r *reading) conditionFacts() []fact {
	all := r.conditions
	ranks := make([]int, len(all))
	for i := range all {
		ranks[i] = rankOf(causeOf(all[i].reason))
	}
	var facts []fact
	for i := range all {
		h := &all[i]
		cause := causeOf(h.reason)
		cuts := []fact{{from: h.from, to: h.to}}
		for j := range all {
			if o := &all[j]; o.by != h.by && ranks[j] > ranks[i] {
				cuts = without(cuts, o.from, o.to)
			}
		}
		for _, c := range cuts {
			facts = append(facts, r.conditionFact(h, cause, c.from, c.to)...)
		}
	}
	return facts
}

// causeOf is the cause that a condition of the pool is.
func causeOf(reason string) string {
	if reason == roster.Ready.String() {
		return BeingPlaced
	}
	return reason
}

// without takes a range out of facts.
func without(facts []fact, from, to time.Time) (out []fact) {
	for _, f := range facts {
		if !f.from.Before(to) || !from.Before(f.to) {
			out = append(out, f)
			continue
		}
		if f.from.Before(from) {
			out = append(out, fact{from: f.from, to: from})
		}
		if to.Before(f.to) {
			out = append(out, fact{from: to, to: f.to})
		}
	}
	return out
}

// conditionFact is what a condition says for a range of time.
func (r *reading) conditionFact(h *held, cause string, from, to time.Time) []fact {
	f := fact{from: from, to: to, cause: cause, source: FromJournal, share: h.share}
	f.evidence = "pool " + r.Execution.Pool + ": " + words(h.reason)
	if cause != BeingPlaced {
		return []fact{f}
	}
	f.evidence = "pool " + r.Execution.Pool + " had room"
	if !r.strict() {
		return []fact{f}
	}
	return r.sessionFacts(f)
}
