package timeline_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/timeline"
)

var start = time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC)

// sec is a time in seconds after start.
func sec(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }

// a, b are nodes; one is an execution before the one at hand.
var (
	a, b = messages.Incarnation{1}, messages.Incarnation{2}
	id   = messages.ExecutionID{1}
	one  = messages.ExecutionID{9}
)

// ran is an execution that was requested at 0 and ran from 10 to 12, placed at 9.
func ran(change ...func(e *messages.Execution)) messages.Execution {
	e := messages.Execution{
		ID: id, Seq: 10, Pool: "python", Status: messages.Completed, Attempt: 1, Worker: messages.WorkerKey{Incarnation: a, Pool: "python", Slot: 3},
		WorkerID: "a/python/3", Generation: 7, RequestedAt: sec(0), RunAt: sec(0), FirstPlacedAt: sec(9), ScheduledAt: sec(9), ClaimBy: sec(24),
		StartedAt: sec(10), FinishedAt: sec(12),
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

func strict(e *messages.Execution) { e.Session, e.Affinity = "u-17", messages.AffinityStrict }

// condition is an entry of the pool's condition.
func condition(by messages.Incarnation, at float64, reason string) messages.JournalEntry {
	return messages.JournalEntry{
		At: sec(at), Incarnation: by, Kind: messages.JournalPool, Subject: "python", What: journal.ConditionChanged, Reason: reason,
	}
}

// shared is an entry of a condition that changed several times up to until.
func shared(by messages.Incarnation, at, until float64, then string, shares map[string]float64) messages.JournalEntry {
	e := condition(by, at, then)
	detail, err := json.Marshal(journal.ConditionDetail{Until: sec(until), Then: then, Shares: shares})
	if err != nil {
		panic(err)
	}
	e.Detail = detail
	return e
}

func session(at float64, what string) messages.JournalEntry {
	e := messages.JournalEntry{At: sec(at), Incarnation: a, Kind: messages.JournalSession, Subject: "python/u-17", What: what}
	if what == "bound" {
		e.Detail = json.RawMessage(`{"worker":"a/python/1"}`)
	}
	return e
}

func gapOf(by messages.Incarnation, kind messages.JournalKind, from, until float64) messages.JournalEntry {
	detail, err := json.Marshal(journal.GapDetail{Until: sec(until), Entries: 3})
	if err != nil {
		panic(err)
	}
	return messages.JournalEntry{At: sec(from), Incarnation: by, Kind: messages.JournalGap, Subject: string(kind), What: journal.Dropped, Detail: detail}
}

// known says that the entries of node a are complete.
var known = map[messages.Incarnation]time.Time{a: sec(1000)}

// text writes the split of a wait, one interval a line.
func text(waits []timeline.Wait) (lines []string) {
	for _, w := range waits {
		lines = append(lines, fmt.Sprintf("%v-%v %s", w.From.Sub(start).Seconds(), w.To.Sub(start).Seconds(), w.Cause))
	}
	return lines
}

func TestTheWaitIsSplitByCause(t *testing.T) {
	t.Parallel()
	takenBack := timeline.Event{
		At: sec(5), Attempt: 1, Kind: "take_back", To: messages.Requested, Reason: "claim_timeout", Worker: "b/python/3", Incarnation: b,
		RunAt: sec(1), ScheduledAt: sec(2),
	}
	lost := takenBack
	lost.Kind, lost.Reason, lost.StartedAt = "rescue", "worker_lost", sec(3)
	second := func(e *messages.Execution) { e.Attempt, e.RunAt = 2, sec(6) }
	before := messages.Execution{
		ID: one, Seq: 4, Session: "u-17", Affinity: messages.AffinityStrict, Status: messages.Completed, RequestedAt: sec(-9), RunAt: sec(-9),
		FirstPlacedAt: sec(-8), StartedAt: sec(-8), FinishedAt: sec(4), WorkerID: "a/python/1", SessionEpoch: 3,
	}
	for name, c := range map[string]struct {
		r    timeline.Record
		want []string
	}{
		"nothing is recorded": {timeline.Record{Execution: ran()}, []string{"0-9 unknown", "9-10 on_queue"}},
		"the pool was busy": {timeline.Record{Execution: ran(), Known: known, Conditions: []messages.JournalEntry{
			condition(a, -100, "workers_busy"), condition(a, 8, "ready")}}, []string{"0-8 workers_busy", "8-9 being_placed", "9-10 on_queue"}},
		"it was not placed before it was claimed": {timeline.Record{Known: known, Conditions: []messages.JournalEntry{condition(a, -1, "ready")},
			Execution: ran(func(e *messages.Execution) {
				e.ScheduledAt, e.FirstPlacedAt, e.ClaimBy = time.Time{}, time.Time{}, time.Time{}
			})},
			[]string{"0-10 being_placed"}},
		"not due": {timeline.Record{Execution: ran(func(e *messages.Execution) { e.RunAt = sec(4) }), Known: known,
			Conditions: []messages.JournalEntry{condition(a, -1, "workers_busy")}}, []string{"0-4 not_due", "4-9 workers_busy", "9-10 on_queue"}},
		"its time counts more than a cordon": {timeline.Record{Execution: ran(func(e *messages.Execution) { e.RunAt = sec(4) }), Known: known,
			Conditions: []messages.JournalEntry{condition(a, -1, "ready"), condition(a, 2, "workers_cordoned"), condition(a, 6, "ready")}},
			[]string{"0-4 not_due", "4-6 workers_cordoned", "6-9 being_placed", "9-10 on_queue"}},
		"taken back": {timeline.Record{Execution: ran(second), Events: []timeline.Event{takenBack}, Known: known,
			Conditions: []messages.JournalEntry{condition(a, -1, "workers_busy")}},
			[]string{"0-1 not_due", "1-2 workers_busy", "2-5 on_queue", "5-6 backed_off", "6-9 workers_busy", "9-10 on_queue"}},
		"taken back, by an older release": {timeline.Record{Execution: ran(second), Known: known, Events: []timeline.Event{
			{At: sec(5), Attempt: 1, Kind: "take_back", To: messages.Requested}}}, []string{"0-5 unknown", "5-6 backed_off", "6-9 unknown", "9-10 on_queue"}},
		"a run was lost": {timeline.Record{Execution: ran(second), Events: []timeline.Event{lost}, Known: known},
			[]string{"0-1 not_due", "1-2 unknown", "2-3 on_queue", "3-5 lost_run", "5-6 not_due", "6-9 unknown", "9-10 on_queue"}},
		"the store was away": {timeline.Record{Execution: ran(), Known: known, Conditions: []messages.JournalEntry{
			condition(a, -1, "workers_busy"), condition(a, 8, "store_away"), condition(a, 9.5, "ready")}},
			[]string{"0-8 workers_busy", "8-9.5 store_away", "9.5-10 on_queue"}},
		"behind another of its session": {timeline.Record{Execution: ran(strict), Known: known, Before: []messages.Execution{before},
			Conditions: []messages.JournalEntry{condition(a, -1, "workers_busy")}}, []string{"0-4 session_order", "4-9 workers_busy", "9-10 on_queue"}},
		"not due, behind another of its session": {timeline.Record{Execution: ran(strict, func(e *messages.Execution) { e.RunAt = sec(3) }),
			Known: known, Before: []messages.Execution{before}, Conditions: []messages.JournalEntry{condition(a, -1, "workers_busy")}},
			[]string{"0-3 not_due", "3-4 session_order", "4-9 workers_busy", "9-10 on_queue"}},
		"its session's worker was busy": {timeline.Record{Execution: ran(strict), Known: known, Now: sec(20), Before: []messages.Execution{before},
			Conditions: []messages.JournalEntry{condition(a, -1, "ready")}, Bindings: []messages.JournalEntry{session(-8, "bound"), session(7, "unbound")}},
			[]string{"0-4 session_order", "4-7 session_worker", "7-9 being_placed", "9-10 on_queue"}},
		"nobody knows whether its session was bound": {timeline.Record{Execution: ran(strict), Known: known, Now: sec(20),
			Conditions: []messages.JournalEntry{condition(a, -1, "ready")}}, []string{"0-9 unknown", "9-10 on_queue"}},
		"its session was bound, by its runs": {timeline.Record{Known: known, Now: sec(20), Before: []messages.Execution{before},
			Execution: ran(strict, func(e *messages.Execution) { e.SessionEpoch = 3 }), Conditions: []messages.JournalEntry{condition(a, -1, "ready")}},
			[]string{"0-4 session_order", "4-9 session_worker", "9-10 on_queue"}},
		"the first of its session": {timeline.Record{Known: known, Now: sec(20), Execution: ran(strict, func(e *messages.Execution) { e.SessionEpoch = 1 }),
			Conditions: []messages.JournalEntry{condition(a, -1, "ready")}}, []string{"0-9 being_placed", "9-10 on_queue"}},
		"the router's node ended": {timeline.Record{Execution: ran(), Known: map[messages.Incarnation]time.Time{a: sec(3), b: sec(99)},
			Conditions: []messages.JournalEntry{condition(a, -1, "workers_busy"), condition(b, 6, "workers_starting")}},
			[]string{"0-3 workers_busy", "3-6 unknown", "6-9 workers_starting", "9-10 on_queue"}},
		"a router that nobody knows any more": {timeline.Record{Execution: ran(), Conditions: []messages.JournalEntry{
			condition(b, -1, "workers_busy"), condition(b, 4, "workers_cordoned")}}, []string{"0-4 workers_busy", "4-9 unknown", "9-10 on_queue"}},
		"handed over": {timeline.Record{Execution: ran(), Known: map[messages.Incarnation]time.Time{a: sec(99), b: sec(99)},
			Conditions: []messages.JournalEntry{condition(a, -1, "workers_busy"), condition(a, 3, "handed_over"), condition(b, 5, "workers_busy")}},
			[]string{"0-3 workers_busy", "3-5 unknown", "5-9 workers_busy", "9-10 on_queue"}},
		"two routers, of which one could have placed it": {timeline.Record{Execution: ran(), Known: map[messages.Incarnation]time.Time{a: sec(99), b: sec(99)},
			Conditions: []messages.JournalEntry{condition(a, -1, "workers_busy"), condition(b, 3, "store_away")}}, []string{"0-9 workers_busy", "9-10 on_queue"}},
		"entries are missing": {timeline.Record{Execution: ran(), Known: known, Gaps: []messages.JournalEntry{gapOf(a, messages.JournalPool, 3, 5)},
			Conditions: []messages.JournalEntry{condition(a, -1, "workers_busy"), condition(a, 6, "ready")}},
			[]string{"0-3 workers_busy", "3-6 unknown", "6-9 being_placed", "9-10 on_queue"}},
		"a part of it": {timeline.Record{Execution: ran(), Known: known, From: sec(2), To: sec(9.5),
			Conditions: []messages.JournalEntry{condition(a, -1, "workers_busy")}}, []string{"2-9 workers_busy", "9-9.5 on_queue"}},
		"a part before the request": {timeline.Record{Execution: ran(), From: sec(-9), To: sec(-2)}, nil},
		"a part after its end":      {timeline.Record{Execution: ran(), From: sec(90)}, nil},
		"earlier events were not read": {timeline.Record{Execution: ran(second), Events: []timeline.Event{takenBack}, EventsBegin: true},
			[]string{"0-2 unknown", "2-5 on_queue", "5-6 backed_off", "6-9 unknown", "9-10 on_queue"}},
		"none of its events was read": {timeline.Record{Execution: ran(second), EventsBegin: true}, []string{"0-9 unknown", "9-10 on_queue"}},
		"it waits": {timeline.Record{Now: sec(7), Known: map[messages.Incarnation]time.Time{a: sec(5)}, Conditions: []messages.JournalEntry{condition(a, -1, "no_worker_yet")},
			Execution: messages.Execution{ID: id, Pool: "python", Status: messages.Requested, RequestedAt: sec(0), RunAt: sec(0)}}, []string{"0-5 no_worker_yet", "5-7 unknown"}},
		"it waits again": {timeline.Record{Now: sec(9), Events: []timeline.Event{lost}, Execution: messages.Execution{ID: id, Pool: "python", Status: messages.Requested,
			Attempt: 1, RequestedAt: sec(0), RunAt: sec(6), StartedAt: sec(3)}},
			[]string{"0-1 not_due", "1-2 unknown", "2-3 on_queue", "3-5 lost_run", "5-6 not_due", "6-9 unknown"}},
		"it was cancelled as it waited": {timeline.Record{Known: known, Conditions: []messages.JournalEntry{condition(a, -1, "workers_busy")},
			Execution: messages.Execution{ID: id, Pool: "python", Status: messages.Cancelled, RequestedAt: sec(0), RunAt: sec(0), FinishedAt: sec(8)}}, []string{"0-8 workers_busy"}},
		"it began at once": {timeline.Record{Execution: ran(func(e *messages.Execution) { e.StartedAt = sec(0) })}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := timeline.Of(&c.r)
			require.Equal(t, c.want, text(got.Wait))
			require.NotNil(t, got.Wait)
			for _, w := range got.Wait {
				require.NotEmpty(t, w.Evidence, w.Cause)
				require.Equal(t, w.Cause == timeline.Unknown, w.Source == "", "%s from %q", w.Cause, w.Source)
			}
			require.False(t, got.Truncated)
		})
	}
}

func TestTheEvidenceNamesWhatShowsTheCause(t *testing.T) {
	t.Parallel()
	r := timeline.Record{Execution: ran(), Known: known, Conditions: []messages.JournalEntry{
		shared(a, 0, 1, "workers_busy", map[string]float64{"workers_busy": 0.7, "ready": 0.3}),
		shared(a, 1, 2, "ready", map[string]float64{"workers_busy": 0.6, "ready": 0.4}),
		condition(a, 4, "workers_busy"),
	}}
	waits := timeline.Of(&r).Wait
	require.Equal(t, []string{"0-2 workers_busy", "2-4 being_placed", "4-9 workers_busy", "9-10 on_queue"}, text(waits))
	require.Equal(t, "pool python: workers busy for 65 % of it", waits[0].Evidence)
	require.Equal(t, timeline.FromJournal, waits[0].Source)
	require.Equal(t, "pool python: workers busy", waits[2].Evidence)
	r.Conditions[0] = shared(a, 0, 1, "ready", map[string]float64{"workers_busy": 0.05, "ready": 0.95})
	require.Equal(t, "being_placed", timeline.Of(&r).Wait[0].Cause, "hardly ever busy")
	r.Conditions[0] = shared(a, 0, 2, "ready", map[string]float64{"workers_busy": 0.999, "ready": 0.001})
	r.Conditions = append(r.Conditions[:1], r.Conditions[2])
	require.Equal(t, "pool python: workers busy", timeline.Of(&r).Wait[0].Evidence, "all of it, as far as one can tell")
	require.Equal(t, "attempt 1 was on the queue of a/python/3", waits[3].Evidence)
	require.Equal(t, timeline.FromRow, waits[3].Source)
}

// What waits now does so by its present cause, also in the seconds that are not in the journal yet.
func TestTheLastWaitGrowsByThePresentCause(t *testing.T) {
	t.Parallel()
	waiting := ran(func(e *messages.Execution) {
		e.Status, e.Attempt, e.StartedAt, e.ScheduledAt, e.FinishedAt, e.FirstPlacedAt = messages.Requested, 0, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	})
	busy := []messages.JournalEntry{condition(a, -1, "workers_busy")}
	for name, c := range map[string]struct {
		e       messages.Execution
		present string
		known   float64
		want    []string
	}{
		"the same cause":            {waiting, "workers_busy", 18, []string{"0-20 workers_busy"}},
		"another one":               {waiting, "workers_cordoned", 18, []string{"0-18 workers_busy", "18-20 workers_cordoned"}},
		"it is next":                {waiting, "ready", 18, []string{"0-18 workers_busy", "18-20 being_placed"}},
		"nothing is known":          {waiting, "", 18, []string{"0-18 workers_busy", "18-20 unknown"}},
		"no cause of a wait":        {waiting, "not_loaded", 18, []string{"0-18 workers_busy", "18-20 unknown"}},
		"the journal is far behind": {waiting, "workers_busy", 5, []string{"0-5 workers_busy", "5-20 unknown"}},
		"it has ended": {ran(func(e *messages.Execution) { e.StartedAt, e.ScheduledAt, e.Attempt = time.Time{}, time.Time{}, 0 }), "workers_busy", 8,
			[]string{"0-8 workers_busy", "8-12 unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := timeline.Of(&timeline.Record{Now: sec(20), Execution: c.e, Conditions: busy, Known: map[messages.Incarnation]time.Time{a: sec(c.known)},
				Present: timeline.Present{Reason: c.present, Message: "now"}})
			require.Equal(t, c.want, text(got.Wait))
			for _, w := range got.Wait {
				require.Equal(t, w.Cause == timeline.Unknown, w.Source == "", w)
			}
		})
	}
}

func TestLanes(t *testing.T) {
	t.Parallel()
	e := ran(strict, func(e *messages.Execution) {
		e.Attempt, e.Status, e.Error = 3, messages.Failed, &messages.Error{Code: messages.CodeActionError}
	})
	r := timeline.Record{
		Now: sec(20), Execution: e, Known: known, Names: map[messages.Incarnation]string{a: "a", b: "b"},
		Events: []timeline.Event{
			{At: sec(2), Attempt: 1, Kind: "take_back", To: messages.Requested, Reason: "claim_timeout", Worker: "b/python/3", Incarnation: b, RunAt: sec(0), ScheduledAt: sec(1)},
			{At: sec(3), Attempt: 1, Kind: "stale_write"},
			{At: sec(6), Attempt: 2, Kind: "rescue", To: messages.Requested, Reason: "worker_lost", Worker: "b/python/3", Incarnation: b, Generation: 2,
				RunAt: sec(2), ScheduledAt: sec(4), StartedAt: sec(5), By: "ann"},
		},
		Chain: []messages.Execution{
			{ID: one, Version: "1.4.1", RequestedAt: sec(-60), RunAt: sec(-60), FinishedAt: sec(-50), Status: messages.Failed},
			{ID: one, Version: "1.4.1", RequestedAt: sec(-40), RunAt: sec(-20), FirstPlacedAt: sec(-39), FinishedAt: sec(-10), Status: messages.Failed, RetryCount: 1},
			{ID: id, Version: "1.4.2", RequestedAt: sec(0), RunAt: sec(2), Status: messages.Failed, RetryReason: "error", FinishedAt: sec(12), RetryCount: 1},
		},
		Retries: timeline.Retries{N: 2},
		Transitions: []timeline.Transition{
			{Worker: "a/python/3", Generation: 7, At: sec(4), From: "ready", To: "degraded", Reason: "slow", Lasted: time.Minute},
			{Worker: "b/python/3", Generation: 2, At: sec(5), From: "ready", To: "terminated", Reason: "killed", Lasted: time.Second},
			{Worker: "a/python/3", Generation: 7, At: sec(8), From: "degraded", To: "ready", Reason: "recovered", Lasted: 4 * time.Second},
			{Worker: "a/python/3", Generation: 7, At: sec(99), From: "ready", To: "terminated"},
		},
		Nodes: []messages.JournalEntry{
			{At: sec(-5), Incarnation: b, Kind: messages.JournalNode, Subject: b.String(), What: "joined"},
			{At: sec(5.5), Incarnation: a, Kind: messages.JournalNode, Subject: b.String(), What: "dead", Reason: "lease"},
		},
		Bindings: []messages.JournalEntry{session(-8, "bound"), session(5, "unbound")},
		Servers: []messages.JournalEntry{
			{At: sec(1), Incarnation: a, Subject: "broker", What: "away", Reason: "refused"},
			{At: sec(2), Incarnation: b, Subject: "broker", What: "back"},
			{At: sec(3), Incarnation: a, Subject: "broker", What: "back"},
		},
	}
	got := timeline.Of(&r)
	require.Equal(t, timeline.Window{From: sec(0), To: sec(12)}, got.Window)
	require.Equal(t, got.Window, got.Whole)
	require.Equal(t, 2, got.Retries.N)
	require.Equal(t, []timeline.Attempt{
		{Attempt: 1, Worker: "b/python/3", Incarnation: b, ScheduledAt: sec(1), EndedAt: sec(2), Ended: "taken_back", Reason: "claim_timeout"},
		{Attempt: 2, Worker: "b/python/3", Incarnation: b, Generation: 2, ScheduledAt: sec(4), StartedAt: sec(5), EndedAt: sec(6), Ended: "rescued",
			Reason: "worker_lost", By: "ann"},
		{Attempt: 3, Worker: "a/python/3", Incarnation: a, Generation: 7, ScheduledAt: sec(9), ClaimBy: sec(24), StartedAt: sec(10), EndedAt: sec(12),
			Ended: "failed", Reason: "action_error"},
	}, got.Attempts)
	require.Equal(t, []timeline.Run{
		{From: sec(5), To: sec(6), Attempt: 2, Outcome: "lost", Code: "worker_lost"}, {From: sec(10), To: sec(12), Attempt: 3, Outcome: "failed", Code: "action_error"},
	}, got.Runs)
	require.Equal(t, []timeline.Link{
		{ID: one, N: 1, Version: "1.4.1", From: sec(-60), To: sec(-50), Status: messages.Failed},
		{ID: one, N: 2, Version: "1.4.1", From: sec(-40), To: sec(-10), Status: messages.Failed}, // its run_at is that of a later attempt
		{ID: id, N: 2, Version: "1.4.2", From: sec(0), To: sec(12), Status: messages.Failed, Reason: "error", DelayMS: 2000},
	}, got.Chain)
	require.Equal(t, []timeline.State{
		{From: sec(0), To: sec(4), Of: "a/python/3", What: "ready", Generation: 7},
		{From: sec(4), To: sec(8), Of: "a/python/3", What: "degraded", Generation: 7, Reason: "slow"},
		{From: sec(4), To: sec(5), Of: "b/python/3", What: "ready", Generation: 2},
		{From: sec(5), To: sec(12), Of: "b/python/3", What: "terminated", Generation: 2, Reason: "killed"},
		{From: sec(8), To: sec(10), Of: "a/python/3", What: "ready", Generation: 7, Reason: "recovered"},
		{From: sec(10), To: sec(12), Of: "a/python/3", What: "busy", Generation: 7, Reason: "it ran this execution"},
	}, got.Worker)
	require.Equal(t, []timeline.State{
		{From: sec(0), To: sec(5.5), Of: "b", What: "alive", By: "b"}, {From: sec(5.5), To: sec(12), Of: "b", What: "dead", Reason: "lease", By: "a"},
	}, got.Node)
	require.Equal(t, []timeline.LateWrite{{At: sec(3), Attempt: 1}}, got.Late)
	require.Equal(t, []timeline.State{
		{From: sec(0), To: sec(5), Of: "python/u-17", What: "bound to a/python/1"}, {From: sec(5), To: sec(12), Of: "python/u-17", What: "unbound"},
	}, got.Session)
	require.Equal(t, []timeline.State{{From: sec(1), To: sec(3), Of: "broker", What: "away", Reason: "refused", By: "a"}}, got.Servers)
	require.Equal(t, []timeline.Gap{
		{From: sec(0), To: sec(1), Why: "the journal has nothing about the pool at this time"},
		{From: sec(2), To: sec(4), Why: "the journal has nothing about the pool at this time"},
		{From: sec(6), To: sec(9), Why: "the journal has nothing about the pool at this time"},
	}, got.Gaps)
}

// A worker's lane is of the generation that takes work: one that was made before the older one ended holds from that end on. A node that
// froze was silent from its last heartbeat until it was declared dead, and what it notes later of that time is no state of it.
func TestLanesOfWorkersAndNodes(t *testing.T) {
	t.Parallel()
	beat, err := json.Marshal(map[string]any{"beat_at": sec(7)})
	require.NoError(t, err)
	node := func(at float64, what string) messages.JournalEntry {
		return messages.JournalEntry{At: sec(at), Incarnation: a, Kind: messages.JournalNode, Subject: a.String(), What: what}
	}
	dead := node(11, "dead")
	dead.Incarnation, dead.Detail = b, beat
	r := timeline.Record{
		Now: sec(60), Names: map[messages.Incarnation]string{a: "a", b: "b"}, Beats: map[messages.Incarnation]time.Time{a: sec(7), b: sec(60)},
		Execution: ran(func(e *messages.Execution) {
			e.Generation, e.ScheduledAt, e.StartedAt, e.FinishedAt = 2, sec(5), sec(5), sec(30)
		}),
		Transitions: []timeline.Transition{
			{Worker: "a/python/3", Incarnation: a, Generation: 1, At: sec(-9), From: "initializing", To: "ready"},
			{Worker: "a/python/3", Incarnation: a, Generation: 2, At: sec(2), From: "initializing", To: "ready", Lasted: time.Second},
			{Worker: "a/python/3", Incarnation: a, Generation: 1, At: sec(3), From: "ready", To: "terminating"},
			{Worker: "a/python/3", Incarnation: a, Generation: 1, At: sec(4), From: "terminating", To: "terminated"},
		},
		Nodes: []messages.JournalEntry{node(-10, "joined"), dead, node(20, "late"), node(21, "fenced"), node(22, "stopped")},
	}
	got := timeline.Of(&r)
	require.Equal(t, []timeline.State{
		{From: sec(0), To: sec(3), Of: "a/python/3", What: "ready", Generation: 1},
		{From: sec(3), To: sec(4), Of: "a/python/3", What: "terminating", Generation: 1},
		{From: sec(4), To: sec(5), Of: "a/python/3", What: "ready", Generation: 2},
		{From: sec(5), To: sec(30), Of: "a/python/3", What: "busy", Generation: 2, Reason: "it ran this execution"},
	}, got.Worker)
	require.Equal(t, []timeline.State{
		{From: sec(0), To: sec(7), Of: "a", What: "alive", By: "a"},
		{From: sec(7), To: sec(11), Of: "a", What: "silent", Reason: "no heartbeat", By: "b"},
		{From: sec(11), To: sec(21), Of: "a", What: "dead", By: "b"},
		{From: sec(21), To: sec(22), Of: "a", What: "fenced", By: "a"},
		{From: sec(22), To: sec(30), Of: "a", What: "stopped", By: "a"},
	}, got.Node)

	r.Nodes, r.Beats = r.Nodes[:1], map[messages.Incarnation]time.Time{a: sec(29)}
	r.Execution.StartedAt, r.Execution.ScheduledAt = time.Time{}, time.Time{}
	got = timeline.Of(&r)
	require.Equal(t, []timeline.State{{From: sec(0), To: sec(29), Of: "a", What: "alive", By: "a"}}, got.Node)
	require.Equal(t, sec(29), got.Worker[len(got.Worker)-1].To, "nobody knows what its workers were after it")
}

// Before it is due it does not wait for its session's worker.
func TestWhatIsNotDueWaitsForNoWorker(t *testing.T) {
	t.Parallel()
	r := timeline.Record{
		Now: sec(20), Known: known, Conditions: []messages.JournalEntry{condition(a, -1, "ready")}, Bindings: []messages.JournalEntry{session(-8, "bound")},
		Execution: ran(strict, func(e *messages.Execution) { e.RunAt, e.RetryCount = sec(6), 1 }),
	}
	got := timeline.Of(&r)
	require.Equal(t, []string{"not_due", "session_worker", "on_queue"}, causes(got.Wait))
	require.Equal(t, sec(6), got.Wait[0].To)
}

func causes(waits []timeline.Wait) (list []string) {
	for _, w := range waits {
		list = append(list, w.Cause)
	}
	return list
}

func TestARunGoesOnUntilNow(t *testing.T) {
	t.Parallel()
	r := timeline.Record{Now: sec(20), Execution: ran(func(e *messages.Execution) { e.Status, e.FinishedAt = messages.Running, time.Time{} })}
	got := timeline.Of(&r)
	require.Equal(t, timeline.Window{From: sec(0), To: sec(20)}, got.Window)
	require.Equal(t, []timeline.Run{{From: sec(10), To: sec(20), Attempt: 1}}, got.Runs)
	require.Empty(t, got.Attempts[0].Ended)
}

// A part has the placements and runs that reach into it, whole, and the states and events of its time.
func TestAPartHasWhatReachesIntoIt(t *testing.T) {
	t.Parallel()
	lost := timeline.Event{At: sec(6), Attempt: 1, Kind: "rescue", To: messages.Requested, Worker: "b/python/3", Incarnation: b, RunAt: sec(0), ScheduledAt: sec(4), StartedAt: sec(5)}
	r := timeline.Record{
		Now: sec(20), Execution: ran(func(e *messages.Execution) { e.Attempt = 2 }), Events: []timeline.Event{lost}, From: sec(5.5), To: sec(8),
		Transitions: []timeline.Transition{{Worker: "b/python/3", At: sec(5), From: "ready", To: "degraded"}},
		Nodes: []messages.JournalEntry{
			{At: sec(5), Subject: "before", What: "late"}, {At: sec(5.5), Subject: "first", What: "late"}, {At: sec(8), Subject: "behind", What: "late"},
		},
	}
	got := timeline.Of(&r)
	require.Equal(t, []timeline.Window{{From: sec(0), To: sec(12)}, {From: sec(5.5), To: sec(8)}}, []timeline.Window{got.Whole, got.Window})
	require.Len(t, got.Attempts, 1)
	require.True(t, got.Attempts[0].ScheduledAt.Equal(sec(4)))
	require.Equal(t, []timeline.Run{{From: sec(5), To: sec(6), Attempt: 1, Outcome: "lost"}}, got.Runs)
	require.Equal(t, []timeline.State{{From: sec(5.5), To: sec(8), Of: "b/python/3", What: "degraded"}}, got.Worker)
	require.Equal(t, []timeline.State{{From: sec(5.5), Of: "first", What: "late"}}, got.Node)
	r.To = time.Time{}
	require.Len(t, timeline.Of(&r).Runs, 2)
}

// Of a long chain an answer has those around the execution, or from a number on, and says how many it leaves out and how to get them.
func TestLinksOfALongChain(t *testing.T) {
	t.Parallel()
	chain := func(first, n int) (list []messages.Execution) {
		for i := range n {
			list = append(list, messages.Execution{ID: messages.ExecutionID{byte(first + i), 7}, RetryCount: first + i - 1, RequestedAt: sec(float64(first + i))})
		}
		return list
	}
	all := chain(1, 120)
	for name, c := range map[string]struct {
		chain   []messages.Execution
		own     messages.Execution
		from    int
		more    bool
		want    []int // the first and the last number
		retries timeline.Retries
		left    []timeline.LeftOut
	}{
		"none":      {nil, all[0], 0, false, []int{1, 1}, timeline.Retries{N: 1}, nil},
		"all fit":   {all[:50], all[49], 0, false, []int{1, 50}, timeline.Retries{N: 50}, nil},
		"the first": {all, all[0], 0, false, []int{1, 50}, timeline.Retries{N: 120}, []timeline.LeftOut{{N: 70, From: sec(51), To: sec(120), Next: "links_from=51"}}},
		"the last":  {all, all[119], 0, false, []int{71, 120}, timeline.Retries{N: 120}, []timeline.LeftOut{{N: 70, From: sec(1), To: sec(70), Next: "links_from=21"}}},
		"one in the middle": {all, all[59], 0, false, []int{35, 84}, timeline.Retries{N: 120}, []timeline.LeftOut{
			{N: 34, From: sec(1), To: sec(34), Next: "links_from=1"}, {N: 36, From: sec(85), To: sec(120), Next: "links_from=85"}}},
		"from a number":   {all, all[119], 21, false, []int{21, 70}, timeline.Retries{N: 120}, []timeline.LeftOut{{N: 20, From: sec(1), To: sec(20), Next: "links_from=1"}, {N: 50, From: sec(71), To: sec(120), Next: "links_from=71"}}},
		"behind the last": {all[:3], all[0], 9, false, nil, timeline.Retries{N: 3}, []timeline.LeftOut{{N: 3, From: sec(1), To: sec(3), Next: "links_from=1"}}},
		"the first ones are deleted": {chain(4, 60), chain(63, 1)[0], 0, false, []int{14, 63}, timeline.Retries{N: 63, Deleted: 3},
			[]timeline.LeftOut{{N: 10, From: sec(4), To: sec(13), Next: "links_from=4"}}},
		"longer than what was read": {all[:100], all[119], 0, true, []int{52, 120}, timeline.Retries{N: 101, AtLeast: true},
			[]timeline.LeftOut{{N: 51, From: sec(1), To: sec(51), Next: "links_from=2"}, {AtLeast: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept, retries, left := timeline.Links(c.chain, &c.own, c.from, c.more)
			var got []int
			if n := len(kept); n > 0 {
				got = []int{kept[0].RetryCount + 1, kept[n-1].RetryCount + 1}
				require.LessOrEqual(t, n, timeline.LinksMax)
			}
			require.Equal(t, c.want, got)
			require.Equal(t, c.retries, retries)
			for i := range c.left {
				c.left[i].What = timeline.LeftRetries
			}
			require.Equal(t, c.left, left)
		})
	}
}

// What a fenced boot left open does not stand over everything that comes later.
func TestAServerIsAwayNoLongerThanTheNodeThatSaysSo(t *testing.T) {
	t.Parallel()
	broker := func(at float64, by messages.Incarnation, what string) messages.JournalEntry {
		return messages.JournalEntry{At: sec(at), Incarnation: by, Kind: messages.JournalServer, Subject: "broker", What: what}
	}
	r := timeline.Record{Now: sec(60), Execution: ran(), Names: map[messages.Incarnation]string{a: "a", b: "b"}}
	r.Execution.FinishedAt, r.Execution.Status = sec(12), messages.Completed
	of := func(beat float64, entries ...messages.JournalEntry) []timeline.State {
		r.Servers, r.Beats = entries, map[messages.Incarnation]time.Time{a: sec(60), b: sec(beat)}
		return timeline.Of(&r).Servers
	}
	require.Empty(t, of(-30, broker(-40, b, "away")), "it ended before the window")
	require.Empty(t, of(-30, broker(-20, b, "away")), "it was declared dead, and said so when it woke up")
	require.Equal(t, []timeline.State{{From: sec(0), To: sec(5), Of: "broker", What: "away", By: "b"}}, of(5, broker(-1, b, "away")))
	require.Equal(t, []timeline.State{{From: sec(6), Of: "broker", What: "away", By: "b"}}, of(5, broker(6, b, "away")), "nothing says how long")
	require.Equal(t, []timeline.State{{From: sec(0), To: sec(12), Of: "broker", What: "away", By: "a"}}, of(5, broker(-1, a, "away")), "it lives")

	r.Nodes = []messages.JournalEntry{{At: sec(4), Incarnation: a, Kind: messages.JournalNode, Subject: b.String(), What: "dead", Reason: "lease"}}
	require.Equal(t, []timeline.State{{From: sec(1), To: sec(4), Of: "broker", What: "away", By: "b"}}, of(3, broker(1, b, "away")), "the journal says when it ended")
}
