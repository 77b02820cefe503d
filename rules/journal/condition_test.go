package journal_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/roster"
)

var start = time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC)

func after(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func same(at time.Time) time.Time { return at }

// flip is one condition at a time.
type flip struct {
	ms  int
	now roster.Reason
}

func TestAConditionMakesOneEntryALook(t *testing.T) {
	t.Parallel()
	plain := func(ms int, reason string) *messages.JournalEntry {
		return &messages.JournalEntry{At: after(ms), Kind: messages.JournalPool, Subject: "p", What: journal.ConditionChanged, Reason: reason}
	}
	shared := func(ms int, reason, detail string) *messages.JournalEntry {
		e := plain(ms, reason)
		e.Detail = json.RawMessage(detail)
		return e
	}
	for name, c := range map[string]struct {
		flips []flip
		look  int
		want  *messages.JournalEntry
	}{
		"nothing":    {nil, 1000, nil},
		"the first":  {[]flip{{100, roster.NoWorkerYet}}, 1000, plain(100, "no_worker_yet")},
		"one change": {[]flip{{0, roster.Ready}, {1000, roster.Ready}}, 1000, plain(0, "ready")},
		"two in one look": {[]flip{{0, roster.WorkersBusy}, {730, roster.Ready}}, 1000,
			shared(0, "workers_busy", `{"until":"2026-03-01T03:12:01Z","then":"ready","shares":{"ready":0.27,"workers_busy":0.73}}`)},
		"there and back": {[]flip{{0, roster.Ready}, {100, roster.WorkersBusy}, {900, roster.Ready}}, 1000,
			shared(0, "workers_busy", `{"until":"2026-03-01T03:12:01Z","then":"ready","shares":{"ready":0.2,"workers_busy":0.8}}`)},
		"all in one moment": {[]flip{{0, roster.Ready}, {0, roster.WorkersBusy}}, 0, plain(0, "workers_busy")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var of journal.Condition
			for _, f := range c.flips {
				of.Note(after(f.ms), f.now)
			}
			e, ok := of.Take(after(c.look), "p", same)
			require.Equal(t, c.want != nil, ok)
			if ok {
				require.Equal(t, *c.want, e)
			}
			_, again := of.Take(after(c.look+1000), "p", same)
			require.False(t, again, "what has not changed is not told again")
		})
	}
}

func TestAConditionThatStaysIsToldOnce(t *testing.T) {
	t.Parallel()
	var of journal.Condition
	of.Note(start, roster.Ready)
	_, ok := of.Take(after(1000), "p", same)
	require.True(t, ok)
	of.Note(after(1500), roster.Ready)
	_, ok = of.Take(after(2000), "p", same)
	require.False(t, ok)
	of.Note(after(2500), roster.PoolBroken)
	e, ok := of.Take(after(3000), "p", func(at time.Time) time.Time { return at.Add(time.Hour) })
	require.True(t, ok)
	require.Equal(t, "pool_broken", e.Reason)
	require.Equal(t, after(2500).Add(time.Hour), e.At, "times are those of the store")
}

// Retention deletes old entries, so what lasts is told again.
func TestAConditionThatLastsIsToldAgain(t *testing.T) {
	t.Parallel()
	var of journal.Condition
	of.Note(start, roster.Ready)
	_, ok := of.Take(after(1000), "p", same)
	require.True(t, ok)
	_, ok = of.Take(start.Add(time.Hour), "p", same)
	require.False(t, ok)
	e, ok := of.Take(start.Add(time.Hour+time.Second), "p", same)
	require.True(t, ok)
	require.Equal(t, messages.JournalEntry{At: start.Add(time.Hour + time.Second), Kind: messages.JournalPool, Subject: "p",
		What: journal.ConditionChanged, Reason: "ready"}, e)
	of.Note(start.Add(2*time.Hour), roster.Handed)
	_, ok = of.Take(start.Add(2*time.Hour), "p", same)
	require.True(t, ok)
	_, ok = of.Take(start.Add(9*time.Hour), "p", same)
	require.False(t, ok, "who does not route has nothing to say")
}

// Whatever happens, the entries together tell of each condition for as long as it held, but for rounding.
func TestTheSharesAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var of journal.Condition
		held, told := map[string]time.Duration{}, map[string]time.Duration{}
		var last *messages.JournalEntry
		now, before := 0, ""
		covered := start
		tell := func(from time.Time, to time.Time) {
			if last == nil || !to.After(from) {
				return
			}
			var d journal.ConditionDetail
			if last.Detail == nil {
				told[last.Reason] += to.Sub(from)
				return
			}
			require.NoError(t, json.Unmarshal(last.Detail, &d))
			for reason, share := range d.Shares {
				told[reason] += time.Duration(share * float64(d.Until.Sub(last.At)))
			}
			if to.After(d.Until) {
				told[d.Then] += to.Sub(d.Until)
			}
		}
		looks := rapid.IntRange(1, 5).Draw(t, "looks")
		for range looks {
			end := now + 1000
			for range rapid.IntRange(0, 6).Draw(t, "flips") {
				step := rapid.IntRange(0, end-now).Draw(t, "step")
				held[before] += time.Duration(step) * time.Millisecond
				now += step
				reason := rapid.SampledFrom([]roster.Reason{roster.Ready, roster.WorkersBusy, roster.StoreAway}).Draw(t, "reason")
				of.Note(after(now), reason)
				before = reason.String()
			}
			held[before] += time.Duration(end-now) * time.Millisecond
			now = end
			if e, ok := of.Take(after(now), "p", same); ok {
				tell(covered, e.At)
				last, covered = &e, e.At
			}
		}
		tell(covered, after(now))
		for reason, want := range held {
			if reason != "" {
				require.InDelta(t, want.Seconds(), told[reason].Seconds(), 0.002*float64(looks), reason)
			}
		}
	})
}
