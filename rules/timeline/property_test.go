package timeline_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/rules/timeline"
)

// draw makes any record, also one that no node would write.
type draw struct{ *rapid.T }

func (t draw) at(name string) time.Time { return sec(float64(rapid.IntRange(-5, 25).Draw(t.T, name))) }

// maybe is a time, or none.
func (t draw) maybe(name string) time.Time {
	if rapid.IntRange(0, 3).Draw(t.T, name+" is there") == 0 {
		return time.Time{}
	}
	return t.at(name)
}

func (t draw) node() messages.Incarnation {
	return rapid.SampledFrom([]messages.Incarnation{a, b, {3}}).Draw(t.T, "node")
}

// poolReasons are the conditions that a pool may have.
var poolReasons = []roster.Reason{
	roster.Ready, roster.WorkersBusy, roster.WorkersStarting, roster.WorkersCordoned, roster.PoolBroken, roster.NoWorkerYet, roster.Settling,
	roster.StoreAway, roster.BrokerAway, roster.BrokerBlocked, roster.Handed,
}

func (t draw) reason() string {
	return rapid.SampledFrom(poolReasons).Draw(t.T, "reason").String()
}

func (t draw) execution() messages.Execution {
	e := ran()
	e.Status = rapid.SampledFrom(messages.Statuses()).Draw(t.T, "status")
	e.RunAt, e.ScheduledAt, e.StartedAt, e.FinishedAt, e.FirstPlacedAt = t.at("due"), t.maybe("placed"), t.maybe("started"), t.maybe("ended"), t.maybe("first")
	e.Affinity = rapid.SampledFrom([]messages.Affinity{"", messages.AffinityHint, messages.AffinityStrict}).Draw(t.T, "affinity")
	if e.Affinity != "" {
		e.Session, e.SessionEpoch = "u-17", int64(rapid.IntRange(0, 2).Draw(t.T, "epoch"))
	}
	return e
}

func (t draw) event() timeline.Event {
	return timeline.Event{
		At: t.at("event"), Attempt: messages.Attempt(rapid.IntRange(0, 2).Draw(t.T, "attempt")), Kind: rapid.SampledFrom([]string{"take_back", "rescue", "place", "stale_write"}).Draw(t.T, "kind"),
		To: rapid.SampledFrom([]messages.Status{messages.Requested, messages.Cancelled}).Draw(t.T, "to"), Reason: "r", Worker: "b/python/3",
		RunAt: t.maybe("event due"), ScheduledAt: t.maybe("event placed"), StartedAt: t.maybe("event started"),
	}
}

func (t draw) condition() messages.JournalEntry {
	e := messages.JournalEntry{At: t.at("condition"), Incarnation: t.node(), Kind: messages.JournalPool, Subject: "python", What: journal.ConditionChanged, Reason: t.reason()}
	if rapid.Bool().Draw(t.T, "shared") {
		d := journal.ConditionDetail{Until: t.at("until"), Then: t.reason(), Shares: map[string]float64{t.reason(): 0.4, t.reason(): 0.6}}
		e.Detail, _ = json.Marshal(d)
	}
	return e
}

func (t draw) before() messages.Execution {
	e := t.execution()
	e.ID, e.Seq = one, int64(rapid.IntRange(1, 20).Draw(t.T, "seq"))
	e.RequestedAt = t.at("requested")
	return e
}

func several[V any](t draw, name string, of func() V) []V {
	list := make([]V, rapid.IntRange(0, 4).Draw(t.T, name))
	for i := range list {
		list[i] = of()
	}
	return list
}

func (t draw) record() *timeline.Record {
	r := &timeline.Record{Now: sec(30), Execution: t.execution(), Known: map[messages.Incarnation]time.Time{}}
	r.Events = several(t, "events", t.event)
	slices.SortFunc(r.Events, func(x, y timeline.Event) int { return x.At.Compare(y.At) })
	r.Conditions = several(t, "conditions", t.condition)
	slices.SortFunc(r.Conditions, func(x, y messages.JournalEntry) int { return x.At.Compare(y.At) })
	r.Before = several(t, "before", t.before)
	r.Bindings = several(t, "bindings", func() messages.JournalEntry {
		return session(float64(rapid.IntRange(-5, 25).Draw(t.T, "binding")), rapid.SampledFrom([]string{"bound", "unbound"}).Draw(t.T, "what"))
	})
	r.Gaps = several(t, "gaps", func() messages.JournalEntry {
		from := rapid.IntRange(-5, 25).Draw(t.T, "gap")
		return gapOf(t.node(), rapid.SampledFrom([]messages.JournalKind{messages.JournalPool, messages.JournalSession}).Draw(t.T, "of"), float64(from), float64(from+2))
	})
	for _, inc := range []messages.Incarnation{a, b} {
		if rapid.Bool().Draw(t.T, "known") {
			r.Known[inc] = t.at("known until")
		}
	}
	r.Servers = several(t, "servers", func() messages.JournalEntry {
		what := rapid.SampledFrom([]string{"away", "blocked", "back"})
		return messages.JournalEntry{At: t.at("server"), Incarnation: t.node(), Kind: messages.JournalServer, Subject: "broker", What: what.Draw(t.T, "server is")}
	})
	slices.SortStableFunc(r.Servers, func(x, y messages.JournalEntry) int { return x.At.Compare(y.At) })
	r.Names, r.Beats = map[messages.Incarnation]string{a: "a", b: "b", {3}: "c"}, map[messages.Incarnation]time.Time{}
	for _, inc := range []messages.Incarnation{a, b, {3}} {
		if beat := t.maybe("beat"); !beat.IsZero() {
			r.Beats[inc] = beat
		}
	}
	r.Transitions = several(t, "transitions", func() timeline.Transition {
		states := rapid.SampledFrom([]string{"ready", "busy", "degraded", "terminating"})
		return timeline.Transition{
			Worker: rapid.SampledFrom([]messages.WorkerID{"a/python/3", "b/python/3"}).Draw(t.T, "worker"), At: t.at("transition"),
			From: states.Draw(t.T, "state before"), To: states.Draw(t.T, "state"), Lasted: time.Duration(rapid.IntRange(0, 9).Draw(t.T, "lasted")) * time.Second,
		}
	})
	slices.SortFunc(r.Transitions, func(x, y timeline.Transition) int { return x.At.Compare(y.At) })
	if rapid.Bool().Draw(t.T, "present") {
		r.Present = timeline.Present{Reason: t.reason(), Message: "now"}
	}
	return r
}

// Whatever is recorded, the intervals cover the time from the request to the start exactly, without overlap, and each cause is shown
// by a record that holds for its whole interval.
func TestTheWaitIsCoveredAndShown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := draw{rt}.record()
		got := timeline.Of(r)
		at := r.Execution.RequestedAt
		for i, w := range got.Wait {
			require.True(rt, w.From.Equal(at), "interval %d begins where the one before ends", i)
			require.True(rt, w.From.Before(w.To), "interval %d is not empty", i)
			at = w.To
			if i > 0 {
				require.NotEqual(rt, got.Wait[i-1], w)
			}
			if w.Cause == timeline.Unknown {
				require.Empty(rt, w.Source)
				continue
			}
			if end := waitEnd(r); w.To.Equal(end) && r.Execution.FinishedAt.IsZero() && cause(r.Present.Reason) == w.Cause {
				require.True(rt, w.Source == timeline.FromNow || shown(r, &w, w.From), "%s from %s", w.Cause, w.Source)
				continue // it is the cause now
			}
			require.NotEqual(rt, timeline.FromNow, w.Source, "only the last interval is what it is now")
			for _, moment := range []time.Time{w.From, w.From.Add(w.To.Sub(w.From) / 2), w.To.Add(-time.Nanosecond)} {
				require.True(rt, shown(r, &w, moment), "%s from %s at %s", w.Cause, w.Source, moment)
			}
		}
		if end := waitEnd(r); end.After(r.Execution.RequestedAt) {
			require.True(rt, at.Equal(end), "the wait ends with %s, want %s", at, end)
		} else {
			require.Empty(rt, got.Wait)
		}
	})
}

// partly draws a part of what is recorded.
func (t draw) partly(r *timeline.Record) *timeline.Record {
	part := *r
	part.From, part.To = t.maybe("part from"), t.maybe("part to")
	return &part
}

// inside reports whether a moment is in the time of an answer.
func inside(w timeline.Window, at time.Time) bool { return !at.Before(w.From) && at.Before(w.To) }

// Whatever is recorded, a part says of each moment what the whole says of it, and never more: only where the whole grows up to now by the
// present cause may a part that begins within that not know it.
func TestAPartSaysWhatTheWholeSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := draw{rt}
		r := d.record()
		asked := d.partly(r)
		whole, part := timeline.Of(r), timeline.Of(asked)
		require.Equal(rt, whole.Whole, part.Whole)
		require.False(rt, part.Window.From.Before(whole.Window.From) || part.Window.To.After(whole.Window.To))
		at := part.Window.From
		for _, w := range part.Wait {
			require.True(rt, w.From.Equal(at) && w.From.Before(w.To), "the part is covered without overlap")
			at = w.To
			for _, moment := range []time.Time{w.From, w.From.Add(w.To.Sub(w.From) / 2), w.To.Add(-time.Nanosecond)} {
				of := slices.IndexFunc(whole.Wait, func(o timeline.Wait) bool { return inside(timeline.Window{From: o.From, To: o.To}, moment) })
				require.GreaterOrEqual(rt, of, 0)
				if o := whole.Wait[of]; w.Cause != o.Cause {
					require.True(rt, w.Cause == timeline.Unknown && of == len(whole.Wait)-1, "%s at %s, and the whole has %s", w.Cause, moment, o.Cause)
				}
			}
		}
		end := waitEnd(r)
		if !asked.To.IsZero() && part.Window.To.Before(end) {
			end = part.Window.To
		}
		if end.After(part.Window.From) {
			require.True(rt, at.Equal(end), "the wait of the part ends with %s, want %s", at, end)
		} else {
			require.Empty(rt, part.Wait)
		}
		for moment := part.Window.From; moment.Before(part.Window.To); moment = moment.Add(time.Second / 2) {
			require.ElementsMatch(rt, statesAt(&whole, moment), statesAt(&part, moment), "at %s", moment)
		}
		for _, a := range part.Attempts {
			require.Contains(rt, whole.Attempts, a)
		}
		for _, run := range part.Runs {
			require.Contains(rt, whole.Runs, run)
		}
	})
}

// statesAt are the states and runs of a moment.
func statesAt(t *timeline.Timeline, at time.Time) (list []string) {
	for _, states := range [][]timeline.State{t.Worker, t.Session, t.Servers} {
		for _, s := range states {
			if inside(timeline.Window{From: s.From, To: s.To}, at) {
				list = append(list, s.Of+" "+s.What)
			}
		}
	}
	for _, run := range t.Runs {
		if inside(timeline.Window{From: run.From, To: run.To}, at) {
			list = append(list, "run "+run.Outcome)
		}
	}
	return list
}

// cause is the cause that a condition of the pool is.
func cause(reason string) string {
	if reason == roster.Ready.String() {
		return timeline.BeingPlaced
	}
	return reason
}

// Whatever is recorded, a worker is not ready while it runs the execution, and is busy or in a worse state for the whole run.
func TestAWorkerIsBusyWhileItRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		got := timeline.Of(draw{rt}.record())
		for _, run := range got.Runs {
			at := slices.IndexFunc(got.Attempts, func(a timeline.Attempt) bool { return a.Attempt == run.Attempt && a.StartedAt.Equal(run.From) })
			if at < 0 || !run.From.Before(run.To) || run.From.Before(got.Window.From) || run.To.After(got.Window.To) {
				continue
			}
			ofRun := slices.DeleteFunc(slices.Clone(got.Worker), func(s timeline.State) bool { return s.Of != string(got.Attempts[at].Worker) })
			for moment := run.From; moment.Before(run.To); moment = moment.Add(time.Second / 2) {
				var states []string
				for _, s := range ofRun {
					if !moment.Before(s.From) && moment.Before(s.To) {
						states = append(states, s.What)
					}
				}
				require.NotEmpty(rt, states, "at %s", moment)
				require.NotContains(rt, states, "ready", "at %s", moment)
			}
		}
	})
}

// Whatever is recorded, a server is away for a node while its last entry says so, and no longer than the node is known to have lived.
func TestAServerIsAwayWhileALivingNodeSaysSo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := draw{rt}.record()
		got := timeline.Of(r)
		for moment := got.Window.From; moment.Before(got.Window.To); moment = moment.Add(time.Second / 2) {
			said := map[string]bool{}
			for _, s := range got.Servers {
				if !s.To.IsZero() && !moment.Before(s.From) && moment.Before(s.To) {
					require.False(rt, said[s.By], "%s says one thing at %s", s.By, moment)
					said[s.By] = true
				}
			}
			for inc, name := range r.Names {
				require.Equal(rt, awayAt(r, inc, moment), said[name], "%s at %s", name, moment)
			}
		}
	})
}

// awayAt reports whether a node's entries show a server away at a moment.
func awayAt(r *timeline.Record, by messages.Incarnation, at time.Time) bool {
	what, more := "back", false
	for i := range r.Servers {
		switch e := &r.Servers[i]; {
		case e.Incarnation != by:
		case e.At.After(at):
			more = true // it lived until then at least
		default:
			what = e.What
		}
	}
	return what != "back" && (more || at.Before(r.Beats[by]))
}

// waitEnd is when the wait ended: with the start of a run that was not lost, else with the execution, else it has not.
func waitEnd(r *timeline.Record) time.Time {
	e := &r.Execution
	end := e.FinishedAt
	if end.IsZero() {
		end = r.Now
	}
	if e.StartedAt.IsZero() {
		return end
	}
	for _, v := range r.Events {
		if v.Kind == "rescue" && v.To == messages.Requested && !v.At.Before(e.StartedAt) {
			return end
		}
	}
	return e.StartedAt
}

// shown reports whether a record shows the cause at a moment. It looks at each record alone.
func shown(r *timeline.Record, w *timeline.Wait, at time.Time) bool {
	within := func(from, to time.Time) bool { return !from.IsZero() && !at.Before(from) && at.Before(to) }
	switch w.Source {
	case timeline.FromJournal:
		return slices.ContainsFunc(r.Conditions, func(e messages.JournalEntry) bool {
			return !e.At.After(at) && says(&e, w.Cause) && !replaced(r, &e, at)
		})
	case timeline.FromSession:
		return w.Link == one && slices.ContainsFunc(r.Before, func(p messages.Execution) bool {
			return p.Seq < r.Execution.Seq && p.Affinity != messages.AffinityHint && !at.Before(p.RequestedAt) && (p.FinishedAt.IsZero() || at.Before(p.FinishedAt))
		})
	case timeline.FromEvents:
		return slices.ContainsFunc(r.Events, func(v timeline.Event) bool {
			switch w.Cause {
			case timeline.OnQueue:
				return within(v.ScheduledAt, v.At) || v.Kind == "take_back" || v.Kind == "rescue"
			case timeline.LostRun:
				return within(v.StartedAt, v.At)
			}
			return !at.Before(v.At) && v.To == messages.Requested
		})
	}
	e := &r.Execution
	return w.Cause == timeline.NotDue || w.Cause == timeline.OnQueue && within(e.ScheduledAt, r.Now.Add(time.Hour))
}

// says reports whether an entry can show a cause.
func says(e *messages.JournalEntry, cause string) bool {
	words := []string{cause}
	if cause == timeline.BeingPlaced || cause == timeline.SessionWorker {
		words = []string{roster.Ready.String()}
	}
	var d journal.ConditionDetail
	if len(e.Detail) > 0 && json.Unmarshal(e.Detail, &d) == nil {
		_, has := d.Shares[words[0]]
		return has || d.Then == words[0] || e.Reason == words[0]
	}
	return e.Reason == words[0]
}

// replaced reports whether an entry holds no more at a moment: its writer wrote another, lost some, ended, or was not read so far.
func replaced(r *timeline.Record, e *messages.JournalEntry, at time.Time) bool {
	last := e.At
	for i := range r.Conditions {
		o := &r.Conditions[i]
		if o.Incarnation != e.Incarnation {
			continue
		}
		if o.At.After(e.At) && !o.At.After(at) {
			return true
		}
		if o.At.After(last) {
			last = o.At
		}
	}
	for _, g := range r.Gaps {
		if g.Incarnation == e.Incarnation && g.Subject == "pool" && !g.At.Before(e.At) && !g.At.After(at) {
			return true
		}
	}
	if last.After(at) {
		return false
	}
	known, ok := r.Known[e.Incarnation]
	if d := (journal.ConditionDetail{}); len(e.Detail) > 0 && json.Unmarshal(e.Detail, &d) == nil && d.Until.After(at) {
		return false
	}
	return !ok || !at.Before(known)
}
