package timeline

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
)

// strict reports whether the execution waits for its session's turn and worker.
func (r *reading) strict() bool {
	e := &r.Execution
	return e.Session != "" && e.Affinity != messages.AffinityHint
}

// orderFacts are the executions of its session that went first. One that waited for a time of its own held nothing before that.
func (r *reading) orderFacts() []fact {
	if !r.strict() {
		return nil
	}
	var facts []fact
	for i := range r.Before {
		p := &r.Before[i]
		if p.Affinity == messages.AffinityHint || p.Seq >= r.Execution.Seq {
			continue
		}
		end := p.FinishedAt
		if end.IsZero() {
			end = r.Now
		}
		facts = append(facts, fact{
			from: heldFrom(p), to: end, cause: SessionOrder, source: FromSession, link: p.ID,
			evidence: "execution " + p.ID.String() + " of session " + p.Session + " was before it",
		})
	}
	return facts
}

// heldFrom is since when an execution surely held its session: since it was due. One that was given back keeps its place, also where its run
// was lost.
func heldFrom(p *messages.Execution) time.Time {
	due := p.RunAt
	if first := p.FirstPlacedAt; !first.IsZero() {
		due = earlier(due, first)
	}
	return later(p.RequestedAt, due)
}

// binding is a time for which it is known whether the session was bound.
type binding struct {
	from, to time.Time
	bound    bool
	worker   string
}

// bindings are what is known of the session's binding: by the journal, and by the runs of its session before.
func (r *reading) bindings() []binding {
	var all []binding
	entries := slices.Clone(r.Bindings)
	slices.SortStableFunc(entries, func(a, b messages.JournalEntry) int { return a.At.Compare(b.At) })
	for i := range entries {
		b := binding{from: entries[i].At, to: r.Now, bound: entries[i].What == journal.SessionBound, worker: detailOf(&entries[i]).Worker}
		if i+1 < len(entries) {
			b.to = entries[i+1].At
		}
		b.to = r.beforeSessionGap(b.from, b.to)
		all = append(all, b)
	}
	e := &r.Execution
	for i := range r.Before {
		p := &r.Before[i]
		if e.SessionEpoch > 0 && p.SessionEpoch == e.SessionEpoch && !p.StartedAt.IsZero() && !e.StartedAt.IsZero() {
			all = append(all, binding{from: p.StartedAt, to: e.StartedAt, bound: true, worker: string(p.WorkerID)})
		}
	}
	if e.SessionEpoch == 1 && len(r.Before) == 0 && !e.StartedAt.IsZero() {
		all = append(all, binding{from: e.RequestedAt, to: e.StartedAt})
	}
	return all
}

// beforeSessionGap ends what is known of a binding where entries about sessions are missing.
func (r *reading) beforeSessionGap(from, to time.Time) time.Time {
	for i := range r.Gaps {
		if g := &r.Gaps[i]; g.Subject == string(messages.JournalSession) && !g.At.Before(from) && g.At.Before(to) {
			to = g.At
		}
	}
	return to
}

// sessionFacts divides a time in which the pool had room by what is known of the session's worker. Where that is nothing, nothing
// explains it. Before it is due it does not wait for that worker.
func (r *reading) sessionFacts(f fact) []fact {
	var facts []fact
	due := r.dueFacts()
	rest := []fact{{from: f.from, to: f.to}}
	for _, b := range r.bindings() {
		for _, piece := range rest {
			from, to := later(piece.from, b.from), earlier(piece.to, b.to)
			if !from.Before(to) {
				continue
			}
			parts := []fact{{from: from, to: to}}
			part := f
			if b.bound {
				for i := range due {
					parts = without(parts, due[i].from, due[i].to)
				}
				part.cause = SessionWorker
				part.evidence += ", and its session was bound"
				if b.worker != "" {
					part.evidence += " to " + b.worker
				}
			}
			for _, p := range parts {
				part.from, part.to = p.from, p.to
				facts = append(facts, part)
			}
		}
		rest = without(rest, b.from, b.to)
	}
	return facts
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
