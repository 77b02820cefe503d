package interest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func nodes(n int) []messages.Incarnation {
	list := make([]messages.Incarnation, n)
	for i := range list {
		list[i] = messages.NewIncarnation()
	}
	return list
}

func TestWhoIsAsked(t *testing.T) {
	t.Parallel()
	own, live, gone := messages.NewIncarnation(), nodes(3), messages.NewIncarnation()
	none := []messages.Incarnation(nil)
	for name, c := range map[string]struct {
		status messages.Status
		runs   messages.Incarnation
		live   []messages.Incarnation
		want   []messages.Incarnation
	}{
		"it waits for a worker":        {messages.Requested, messages.Incarnation{}, live, live},
		"it is placed here":            {messages.Scheduled, own, live, live},
		"it is placed there":           {messages.Scheduled, live[0], live, live},
		"it runs there":                {messages.Running, live[1], live, live[1:2]},
		"it is being cancelled there":  {messages.Cancelling, live[2], live, live[2:]},
		"it runs here":                 {messages.Running, own, live, none},
		"it ran on a node that ended":  {messages.Running, gone, live, none},
		"it has ended":                 {messages.Completed, live[0], live, none},
		"nobody else lives":            {messages.Requested, messages.Incarnation{}, nil, none},
		"as many others as are asked":  {messages.Requested, messages.Incarnation{}, nodes(FanoutMax), nil},
		"more others than are asked":   {messages.Requested, messages.Incarnation{}, nodes(FanoutMax + 1), none},
		"it runs there, of many nodes": {messages.Running, live[1], append(nodes(FanoutMax), live...), live[1:2]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "as many others as are asked" {
				c.want = c.live
			}
			require.Equal(t, c.want, Ask(own, c.status, c.runs, c.live))
		})
	}
}

func TestForHowLongAnOutcomeIsWanted(t *testing.T) {
	t.Parallel()
	for pause, want := range map[time.Duration]time.Duration{
		-time.Second: 5 * time.Second, 0: 5 * time.Second, 5 * time.Second: 10 * time.Second, 7900 * time.Millisecond: 12 * time.Second,
		time.Minute: 65 * time.Second, time.Hour: LastsMax,
	} {
		require.Equal(t, want, Lasts(pause), pause)
	}
}

func TestABookTellsEachWhoWantsItOnce(t *testing.T) {
	t.Parallel()
	b, all, id, other := NewBook(start), nodes(2), messages.NewExecutionID(), messages.NewExecutionID()
	require.True(t, b.Note(start, all[0], id, time.Second))
	require.True(t, b.Note(start, all[0], id, time.Minute), "again, for longer")
	require.True(t, b.Note(start, all[1], id, 5*time.Second))
	require.True(t, b.Note(start, all[1], id, time.Second), "again, for shorter")
	require.Equal(t, 1, b.Len())
	require.Empty(t, b.Told(start, other))
	require.Equal(t, all, b.Told(start.Add(4*time.Second), id))
	require.Empty(t, b.Told(start.Add(4*time.Second), id))
	require.Zero(t, b.Len())
	require.True(t, b.Note(start.Add(4*time.Second), all[0], id, time.Second), "anew")
	require.Equal(t, all[:1], b.Told(start.Add(4*time.Second), id))
}

func TestABookForgetsWhatIsOver(t *testing.T) {
	t.Parallel()
	b, all, id := NewBook(start), nodes(2), messages.NewExecutionID()
	b.Note(start, all[0], id, 10*time.Second)
	b.Note(start, all[1], id, 20*time.Second)
	b.Note(start.Add(9*time.Second), all[0], id, 3*time.Second)
	require.Equal(t, all, b.Told(start.Add(11*time.Second), id), "the first is wanted for longer by now")
	b.Note(start, all[0], id, 10*time.Second)
	b.Note(start, all[1], id, 20*time.Second)
	require.Equal(t, all[1:], b.Told(start.Add(10*time.Second), id), "to the moment")
	b.Note(start.Add(10*time.Second), all[0], id, time.Hour)
	require.Empty(t, b.Told(start.Add(10*time.Second+LastsMax), id), "for no longer than the bound")
	b.Told(start.Add(time.Hour), id)
	require.Zero(t, b.Len())
	require.Zero(t, b.places)
	require.Empty(t, b.due)
	require.Empty(t, b.of)
}

func TestABookForgetsANodeThatHasEnded(t *testing.T) {
	t.Parallel()
	b, all, id, own := NewBook(start), nodes(2), messages.NewExecutionID(), messages.NewExecutionID()
	b.Note(start, all[0], id, time.Minute)
	b.Note(start, all[1], id, 30*time.Second)
	b.Note(start, all[0], own, time.Minute)
	b.Forget(all[0])
	b.Forget(messages.NewIncarnation())
	require.Equal(t, 1, b.Len())
	require.Len(t, b.due, 1)
	require.Equal(t, all[1:], b.Told(start, id))
}

func TestABookIsBounded(t *testing.T) {
	t.Parallel()
	b, all := NewBook(start), nodes(BookMax/NodeMax+1)
	for _, by := range all[:len(all)-1] {
		for range NodeMax {
			require.True(t, b.Note(start, by, messages.NewExecutionID(), time.Minute))
		}
		require.False(t, b.Note(start, by, messages.NewExecutionID(), time.Minute), "one node")
	}
	last, id := all[len(all)-1], messages.NewExecutionID()
	require.False(t, b.Note(start, last, id, time.Minute), "all nodes")
	b.Forget(all[0])
	require.True(t, b.Note(start, last, id, time.Minute))
	b.Told(start, id)
	require.Equal(t, BookMax-NodeMax+1, b.places, "what is told keeps its place until its time is over")
	later := start.Add(62 * time.Second)
	require.True(t, b.Note(later, all[1], id, time.Minute))
	require.Equal(t, 1, b.places)
}

// A book says of each execution what the notes of it say, whatever else happens.
func TestABookAgainstItsMeaning(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, all, now := NewBook(start), nodes(3), start
		ids := make([]messages.ExecutionID, 4)
		for i := range ids {
			ids[i] = messages.NewExecutionID()
		}
		want := map[place]time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 8000).Draw(t, "ms")) * time.Millisecond)
			p := place{rapid.SampledFrom(ids).Draw(t, "id"), rapid.SampledFrom(all).Draw(t, "node")}
			switch rapid.IntRange(0, 9).Draw(t, "do") {
			case 0:
				b.Forget(p.by)
				for known := range want {
					if known.by == p.by {
						delete(want, known)
					}
				}
			case 4:
				b.Over(now, p.id)
				for known, until := range want {
					if known.id == p.id && until.After(now.Add(OverTime)) {
						want[known] = now.Add(OverTime)
					}
				}
			case 1, 2, 3:
				told := b.Told(now, p.id)
				for _, by := range all {
					until, noted := want[place{p.id, by}]
					require.Equal(t, noted && until.After(now), count(told, by) == 1, "told exactly to those who want it")
					require.LessOrEqual(t, count(told, by), 1)
					delete(want, place{p.id, by})
				}
			default:
				lasts := time.Duration(rapid.IntRange(1, 90).Draw(t, "lasts")) * time.Second
				require.True(t, b.Note(now, p.by, p.id, lasts))
				want[p] = later(want[p], now.Add(lasts))
			}
		}
		b.Told(now.Add(2*LastsMax), ids[0])
		require.Zero(t, b.places)
		require.Zero(t, b.Len())
		require.Empty(t, b.of)
		require.Empty(t, b.due)
		require.Empty(t, b.over)
	})
}

// The hint of an outcome may come before the recorder of the same node tells it.
func TestWhatIsOverIsWantedForAMomentStill(t *testing.T) {
	t.Parallel()
	b, all, id, other := NewBook(start), nodes(1), messages.NewExecutionID(), messages.NewExecutionID()
	b.Note(start, all[0], id, time.Minute)
	b.Note(start, all[0], other, time.Minute)
	b.Over(start, id)
	b.Over(start, other)
	b.Over(start, messages.NewExecutionID())
	require.Len(t, b.over, 2)
	require.Equal(t, all, b.Told(start.Add(OverTime-1), id))
	require.Empty(t, b.Told(start.Add(OverTime), other))
	require.Zero(t, b.Len())
	require.Empty(t, b.over)
}

func count(list []messages.Incarnation, of messages.Incarnation) (n int) {
	for _, inc := range list {
		if inc == of {
			n++
		}
	}
	return n
}

func TestAQueueGathersBehindTheMessageThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	q := NewQueue[int](Bounds{Items: 5, Bytes: 100, MessageItems: 3, MessageBytes: 30})
	add := func(item, size int, begins, fits bool) {
		t.Helper()
		begin, ok := q.Add(item, size)
		require.Equal(t, []bool{begins, fits}, []bool{begin, ok})
	}
	add(0, 31, false, false) // no message takes it
	add(1, 30, true, true)
	require.Equal(t, []int{1}, q.Next())
	add(2, 10, false, true)
	add(3, 20, false, true)
	add(4, 1, false, true)
	add(5, 1, false, true)
	add(6, 1, false, true)
	add(7, 1, false, false) // too many wait
	require.Equal(t, []int{2, 3}, q.Next(), "as many bytes as a message takes")
	require.Equal(t, []int{4, 5, 6}, q.Next(), "as many items as a message takes")
	require.Empty(t, q.Next())
	add(8, 1, true, true) // nothing was on its way
	require.Equal(t, 1, q.Drop())
	require.Empty(t, q.Next())
	wide := NewQueue[int](Bounds{Items: 5, Bytes: 40, MessageItems: 3, MessageBytes: 30})
	wide.Add(1, 30)
	begin, ok := wide.Add(2, 11)
	require.Equal(t, []bool{false, false}, []bool{begin, ok}, "too many bytes wait")
}
