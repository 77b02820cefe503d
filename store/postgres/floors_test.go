package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func TestBasesOf(t *testing.T) {
	t.Parallel()
	clock := time.Unix(1_000_000, 0)
	of := func(saw lookResult, seq int64) bases { return basesOf(&saw, mark{seq: seq, clock: clock}) }
	at := func(p messages.Priority, seq int64) messages.Candidate {
		return messages.Candidate{Priority: p, Seq: seq}
	}
	b := of(lookResult{}, 100)
	for rank := range floorRanks {
		require.EqualValues(t, 100, b.plain[rank], "nothing waits below the mark")
		require.EqualValues(t, 100, b.heads[rank])
	}
	require.EqualValues(t, 100, b.fails)
	require.Equal(t, clock, b.timer)
	b = of(lookResult{plain: []messages.Candidate{at(9, 70), at(9, 90), at(5, 200)}}, 100)
	require.EqualValues(t, 69, b.plain[0], "the first that waits is seen again")
	require.EqualValues(t, 100, b.plain[4], "one that was stored later than the mark may follow one that is not committed yet")
	require.EqualValues(t, 100, b.plain[9])
	b = of(lookResult{plain: []messages.Candidate{at(9, 70), at(5, 20)}, more: true}, 100)
	require.EqualValues(t, 19, b.plain[4])
	require.Zero(t, b.plain[5], "behind a cut nothing is known")
	require.Zero(t, of(lookResult{}, 0).plain[0])
	b = of(lookResult{turns: [floorRanks]int64{4: 7, 5: 200}, fails: 30, timer: clock.Add(time.Hour)}, 100)
	require.EqualValues(t, 6, b.heads[4], "what waits for its turn is the head in a moment")
	require.EqualValues(t, 100, b.heads[5])
	require.EqualValues(t, 29, b.fails)
	require.Equal(t, clock, b.timer, "one that comes to wait may be due before the first")
	require.Equal(t, clock.Add(-time.Second-time.Microsecond), of(lookResult{timer: clock.Add(-time.Second)}, 100).timer)
}

func TestFloorsServeAfterASlowLookAlone(t *testing.T) {
	t.Parallel()
	f, now := newFloors(), time.Unix(1_000_000, 0)
	look := func(took time.Duration, last int64) {
		f.looked("p", now, now.Add(took), &lookResult{last: mark{seq: last}})
		now = now.Add(took)
	}
	look(floorSlow-1, 50)
	_, has := f.of("p", now)
	require.False(t, has, "a fast look is made whole each time")
	look(100*time.Millisecond, 0)
	look(100*time.Millisecond, 60)
	_, has = f.of("p", now)
	require.False(t, has, "what was just stored may not be committed")
	now = now.Add(floorAge)
	look(100*time.Millisecond, 80)
	from, has := f.of("p", now)
	require.True(t, has)
	require.EqualValues(t, 60, from.plain[0])
	_, has = f.of("p", now.Add(time.Second))
	require.False(t, has, "after ten times what it took")
	f.clear(now)
	_, has = f.of("p", now)
	require.False(t, has, "something has come to wait below")
	look(floorSlow-1, 90)
	require.Empty(t, f.pools)
}
