package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/storetest/faulty"
)

// decided tracks a few executions, two of them in one session, by store.Decide alone.
type decided struct {
	rows   []store.Row
	held   store.Session
	has    bool // the session's row exists
	events map[messages.ExecutionID][]store.Event
	all    map[messages.ExecutionID][]store.Event // including those of the straight path
}

// testDecided makes random changes, many in one call, and compares every verdict, row, event and session with
// store.Decide. So an adapter whose statements make changes has no rules of its own.
func testDecided(t *testing.T, k *kit) {
	rapid.Check(t, func(r *rapid.T) {
		session := messages.NewExecutionID().String()
		affinity := rapid.SampledFrom([]messages.Affinity{messages.AffinityStrict, messages.AffinityStrictFail, messages.AffinityHint}).Draw(r, "affinity")
		m := &decided{events: map[messages.ExecutionID][]store.Event{}, all: map[messages.ExecutionID][]store.Event{}}
		for _, e := range k.submit(r, ask(), ask(inSession(session, affinity)), ask(inSession(session, affinity))) {
			m.rows = append(m.rows, store.Row{Execution: k.get(r, e.ID)})
		}
		for range rapid.IntRange(1, 12).Draw(r, "calls") {
			m.call(r, k)
		}
		m.compareEvents(r, k)
		for i := range m.rows { // so that the next history has no backlog
			k.apply(r, &store.Cancel{ID: m.rows[i].ID})
		}
	})
}

// call draws the changes of one call as if each drawn one were made, and compares the results.
func (m *decided) call(r *rapid.T, k *kit) {
	guess := &decided{rows: append([]store.Row(nil), m.rows...), held: m.held, has: m.has}
	var changes []store.Change
	var of []int
	many := rapid.IntRange(1, 4).Draw(r, "changes")
	for range many {
		i := rapid.IntRange(0, len(m.rows)-1).Draw(r, "execution")
		c := guess.draw(r, k, i, many == 1)
		guess.follow(i, c, time.Unix(0, 0).UTC())
		changes, of = append(changes, c), append(of, i)
	}
	counted, made := faulty.CountMade(ctx(r))
	results, err := k.Apply(counted, changes)
	require.NoError(r, err)
	require.Len(r, results, len(changes))
	decisions := m.followAll(of, changes, results, max(*made, 1))
	for n, got := range results {
		d := decisions[n]
		name := changes[n].Name()
		require.Equal(r, d.Verdict, got.Verdict, "%s: %v, decided: %v", name, got.Err, d.Err)
		for _, kind := range []error{store.ErrSession, store.ErrInvalid, store.ErrFenced} {
			if d.Err != nil {
				require.Equal(r, isError(d.Err, kind), isError(got.Err, kind), "%s: %v, decided: %v", name, got.Err, d.Err)
			}
		}
		require.Equal(r, d.Next.Status, got.Status, name)
		require.Equal(r, d.Next.Attempt, got.Attempt, name)
		require.Equal(r, d.Carry, got.Execution != nil, "%s carries the execution", name)
		if d.Retry != nil {
			m.compareRetry(r, k, &d)
		}
	}
	for i := range m.rows {
		require.Equal(r, stored(m.rows[i].Execution), stored(k.get(r, m.rows[i].ID)))
	}
	m.compareSession(r, k)
}

// stored returns the execution as a store returns it: an error in its stored form.
func stored(e messages.Execution) messages.Execution {
	e.Error = store.DecodeError(store.EncodeError(e.Error))
	if len(e.Result) == 0 {
		e.Result = nil
	}
	return e
}

// followAll decides the changes of a call that was made so often, as one is again whose reply was lost. A change that was refused may take effect the
// next time, because of one behind it.
func (m *decided) followAll(of []int, changes []store.Change, results []store.Result, times int) []store.Decision {
	decisions := make([]store.Decision, len(changes))
	for range times {
		for n, c := range changes {
			if decisions[n].Verdict != store.Applied {
				decisions[n] = m.follow(of[n], c, results[n].At)
			}
		}
	}
	return decisions
}

// follow decides the change of row i and applies it.
func (m *decided) follow(i int, c store.Change, at time.Time) store.Decision {
	row := &m.rows[i]
	facts := &store.Facts{Held: m.held}
	for j := range m.rows {
		o := &m.rows[j]
		facts.Busy = facts.Busy || j != i && o.Session != "" && o.Status >= messages.Scheduled && !o.Status.Terminal()
	}
	d := store.Decide(row, facts, c, at)
	if d.Verdict != store.Applied {
		return d
	}
	m.affect(&d, at)
	*row = d.Next
	if m.events == nil {
		return d
	}
	kept := []store.Event{d.Event}
	if d.Retry != nil {
		kept = []store.Event{d.RetryEvent(), d.Event}
	}
	m.all[row.ID] = append(m.all[row.ID], kept...)
	if d.Straight {
		kept = kept[:len(kept)-1]
	}
	m.events[row.ID] = append(m.events[row.ID], kept...)
	return d
}

// affect applies the decision's effect on the session.
func (m *decided) affect(d *store.Decision, at time.Time) {
	n := &d.Next
	switch d.Session {
	case store.SessionBound:
		m.has = true
		m.held.Epoch, m.held.Worker, m.held.BoundAt, m.held.TouchedAt = n.SessionEpoch, n.Worker, at, at
	case store.SessionStarted:
		if m.held.StartedEpoch == 0 {
			m.held.StartedEpoch = n.SessionEpoch
		}
	case store.SessionFinished:
		if !m.has || n.Affinity == messages.AffinityHint && m.held.Worker != n.Worker {
			return
		}
		m.held.FinishedEpoch, m.held.TouchedAt = max(m.held.FinishedEpoch, n.SessionEpoch), at
		if store.LeavesState(n.Status) {
			m.held.Runs++
		}
	}
}

func (m *decided) compareSession(r *rapid.T, k *kit) {
	row := &m.rows[1]
	got, err := k.GetSession(ctx(r), row.Pool, row.Session)
	if !m.has {
		require.ErrorIs(r, err, store.ErrNotFound)
		return
	}
	require.NoError(r, err)
	want := m.held
	want.Pool, want.Session = row.Pool, row.Session
	require.Equal(r, want, got)
}

// compareRetry compares the retry of an ended execution.
func (m *decided) compareRetry(r *rapid.T, k *kit, d *store.Decision) {
	got := k.get(r, d.Retry.ID)
	require.Equal(r, messages.Requested, got.Status)
	require.Equal(r, d.Next.CrashCount, got.CrashCount)
	require.Equal(r, d.Next.Parameters, got.Parameters)
	require.Empty(r, got.IdempotencyKey)
}

// compareEvents accepts a store with all events, or without those of the straight path. Stale writes have their own
// test.
func (m *decided) compareEvents(r *rapid.T, k *kit) {
	for i := range m.rows {
		id := m.rows[i].ID
		events, err := k.Events(ctx(r), id)
		require.NoError(r, err)
		var got []store.Event
		for _, v := range events {
			if v.Kind != store.StaleWrite {
				got = append(got, v)
			}
		}
		want := m.events[id]
		if len(got) != len(want) {
			want = m.all[id]
		}
		require.Equal(r, len(want), len(got), "%v\n%v", want, got)
		for n := range want {
			require.Equal(r, want[n], got[n])
		}
	}
}
