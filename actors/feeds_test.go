package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// follow follows a feed to its end and returns the messages seen.
func follow(ctx context.Context, b *Feeds, id messages.ExecutionID, done <-chan *messages.Execution) ([]string, error) {
	var seen []string
	err := b.Follow(ctx, id, done, func(h messages.RunEvent) error {
		seen = append(seen, h.Message)
		return nil
	})
	return seen, err
}

func TestAFeedIsFollowed(t *testing.T) {
	t.Parallel()
	b, id := NewFeeds(), messages.NewExecutionID()
	var followers sync.WaitGroup
	for range 4 {
		followers.Go(func() {
			seen, err := follow(context.Background(), b, id, nil)
			if err != nil || len(seen) != 100 || seen[99] != "99" {
				t.Errorf("saw %d events, %v", len(seen), err)
			}
		})
	}
	soon(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.feeds[id] != nil && b.feeds[id].read == 4 }, "they follow before it begins")
	for i := range 100 {
		b.Add(id, messages.RunEvent{Kind: "log", Message: fmt.Sprint(i)})
	}
	b.Close(id)
	followers.Wait()
	require.Empty(t, b.feeds)
}

// Who follows what has ended already, or never begins, ends too and leaves nothing behind.
func TestFollowersOfFeedsEnd(t *testing.T) {
	t.Parallel()
	b, id := NewFeeds(), messages.NewExecutionID()
	b.Add(id, messages.RunEvent{Message: "a"})
	b.Close(id)
	done := make(chan *messages.Execution, 1)
	done <- &messages.Execution{}
	seen, err := follow(t.Context(), b, id, done)
	require.NoError(t, err)
	require.Empty(t, seen)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = follow(ctx, b, id, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, b.feeds)
	b.Add(id, messages.RunEvent{Message: "b"})
	broken := errors.New("the caller has gone")
	require.ErrorIs(t, b.Follow(t.Context(), id, nil, func(messages.RunEvent) error { return broken }), broken)
	b.Close(id)
	b.Close(id)
	require.Empty(t, b.feeds)
}

func TestFeedsAreBounded(t *testing.T) {
	t.Parallel()
	b, id := NewFeeds(), messages.NewExecutionID()
	for range 50_000 {
		b.Add(id, messages.RunEvent{Kind: "progress"}) // empty ones too
	}
	require.Less(t, len(b.feeds[id].events), 20_000)
	chunk := make([]byte, feedBytesMax/4)
	for range 10 {
		b.Add(id, messages.RunEvent{Kind: "stdout", Data: chunk})
		b.Add(id, messages.RunEvent{Kind: "stderr", Data: []byte("e")})
	}
	require.LessOrEqual(t, b.feeds[id].bytes, feedBytesMax)
	b.Add(id, messages.RunEvent{Kind: "stdout", Data: make([]byte, 2*feedBytesMax)})
	require.Len(t, b.feeds[id].events, 1, "the newest is always kept")
	require.Len(t, b.Output(id).Stdout, 2*feedBytesMax)
	require.Empty(t, b.Output(messages.NewExecutionID()).Stdout)
	next := 3 // a slow follower loses what was dropped, no more, and learns how much that is
	events, lost, _, closed := b.next(b.feeds[id], &next)
	require.Len(t, events, 1)
	require.Equal(t, uint64(50_000+20-3), lost)
	require.False(t, closed)
	_, lost, _, _ = b.next(b.feeds[id], &next)
	require.Zero(t, lost, "it is told once")
}

// What a feed no longer has when it is read is told in its place, to one that follows and to one that polls.
func TestALossOfAFeedIsTold(t *testing.T) {
	t.Parallel()
	b, id := NewFeeds(), messages.NewExecutionID()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 3 {
		b.Add(id, messages.RunEvent{Kind: "log", Message: fmt.Sprint(i), At: at.Add(time.Duration(i))})
	}
	polled := b.Poll(id, Poll{}, func(*messages.RunEvent) bool { return true })
	require.Len(t, polled.Events, 3)
	require.Zero(t, polled.Lost)
	b.Add(id, messages.RunEvent{Kind: "stdout", Data: make([]byte, feedBytesMax), At: at})
	b.Add(id, messages.RunEvent{Kind: "log", Message: "last", At: at.Add(time.Second)})

	polled = b.Poll(id, polled.Next, func(*messages.RunEvent) bool { return true })
	require.Equal(t, uint64(1), polled.Lost, "it has read the others")
	require.True(t, polled.StdoutCut)
	require.False(t, polled.StderrCut)
	require.Len(t, polled.Events, 1)
	require.Zero(t, b.Poll(id, polled.Next, func(*messages.RunEvent) bool { return true }).Lost)
	require.Equal(t, uint64(4), b.Poll(id, Poll{Feed: 99, From: 3}, func(*messages.RunEvent) bool { return true }).Lost, "another feed is read from its beginning")

	out := b.Output(id)
	require.Empty(t, out.Stdout)
	require.True(t, out.StdoutCut, "it is not shown as if it were all")
	require.False(t, out.ErrCut)

	b.mu.Lock()
	f := b.feeds[id]
	b.mu.Unlock()
	b.Close(id)
	var seen []messages.RunEvent
	from := 0
	require.NoError(t, b.follow(t.Context(), f, &from, nil, func(e messages.RunEvent) error {
		seen = append(seen, e)
		return nil
	}))
	require.Equal(t, []messages.RunEvent{
		{Kind: "notice", At: at.Add(time.Second), Fraction: -1, Message: "4 entries before this one were not kept"}, {Kind: "log", Message: "last", At: at.Add(time.Second)},
	}, seen)
	gone := errors.New("the caller has gone")
	from = 3
	require.ErrorIs(t, b.follow(t.Context(), f, &from, nil, func(e messages.RunEvent) error {
		require.Equal(t, "1 entry before this one was not kept", e.Message)
		return gone
	}), gone)
}

func TestAStreamIsCutWhereItsBytesWereDropped(t *testing.T) {
	t.Parallel()
	b, id := NewFeeds(), messages.NewExecutionID()
	b.Add(id, messages.RunEvent{Kind: "stderr", Data: []byte("e")})
	b.Add(id, messages.RunEvent{Kind: "stdout"})
	b.Add(id, messages.RunEvent{Kind: "stdout", Data: make([]byte, feedBytesMax)})
	out := b.Output(id)
	require.Len(t, out.Stdout, feedBytesMax)
	require.False(t, out.StdoutCut, "all of it is here")
	require.True(t, out.ErrCut)
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	o, id := NewOutcomes(), messages.NewExecutionID()
	status := messages.Running
	get := func(context.Context, messages.ExecutionID) (messages.Execution, error) {
		return messages.Execution{ID: id, Status: status}, nil
	}
	one, leaveOne, err := o.Subscribe(id)
	require.NoError(t, err)
	two, leaveTwo, err := o.Subscribe(id)
	require.NoError(t, err)
	leaveOne()
	o.Publish(&messages.Execution{ID: id})
	require.Equal(t, id, (<-two).ID)
	require.Empty(t, one)
	leaveTwo()
	leaveTwo()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e, err := o.Wait(ctx, id, get)
	require.NoError(t, err)
	require.Equal(t, messages.Running, e.Status, "what it is when the wait ends")
	status = messages.Completed
	e, err = o.Wait(t.Context(), id, get)
	require.NoError(t, err)
	require.Equal(t, messages.Completed, e.Status)
	require.Zero(t, o.count)
	require.Empty(t, o.waiting)
}

// Waits race with outcomes: everybody who subscribed before the store said so is woken.
func TestOutcomesRace(t *testing.T) {
	t.Parallel()
	o := NewOutcomes()
	var mu sync.Mutex
	done := map[messages.ExecutionID]bool{}
	get := func(_ context.Context, id messages.ExecutionID) (messages.Execution, error) {
		mu.Lock()
		defer mu.Unlock()
		if done[id] {
			return messages.Execution{ID: id, Status: messages.Completed}, nil
		}
		return messages.Execution{ID: id, Status: messages.Running}, nil
	}
	var all sync.WaitGroup
	for range 200 {
		id := messages.NewExecutionID()
		all.Go(func() {
			e, err := o.Wait(context.Background(), id, get)
			if err != nil || e.Status != messages.Completed {
				t.Errorf("waited for %s, %v", e.Status, err)
			}
		})
		all.Go(func() {
			mu.Lock()
			done[id] = true
			mu.Unlock()
			o.Look(id)
		})
	}
	all.Wait()
	require.Zero(t, o.count)
}

// An announcement may be false: another node's outcome that came too late for its attempt. Whoever waits goes on waiting.
func TestWaitOutlivesAFalseWord(t *testing.T) {
	t.Parallel()
	o, id := NewOutcomes(), messages.NewExecutionID()
	looks := 0
	get := func(context.Context, messages.ExecutionID) (messages.Execution, error) {
		looks++
		if looks < 4 {
			o.Look(id) // after each look that finds it running
			return messages.Execution{ID: id, Status: messages.Running}, nil
		}
		return messages.Execution{ID: id, Status: messages.Completed}, nil
	}
	e, err := o.Wait(t.Context(), id, get)
	require.NoError(t, err)
	require.Equal(t, messages.Completed, e.Status)
	require.Equal(t, 4, looks)
	require.Zero(t, o.count)
}

// The word of an outcome may be lost: whoever waits looks by itself, less and less often, and always once a minute.
func TestWaitLooksByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, began := NewOutcomes(), time.Now()
		var looks []time.Duration
		e, err := o.Wait(t.Context(), messages.NewExecutionID(), func(_ context.Context, id messages.ExecutionID) (messages.Execution, error) {
			looks = append(looks, time.Since(began))
			if len(looks) < 7 {
				return messages.Execution{ID: id, Status: messages.Running}, nil
			}
			return messages.Execution{ID: id, Status: messages.Completed}, nil
		})
		require.NoError(t, err)
		require.Equal(t, messages.Completed, e.Status)
		want := []time.Duration{0, 5, 15, 35, 75, 135, 195}
		for i := range want {
			want[i] *= time.Second
		}
		require.Equal(t, want, looks)
	})
}

// A store that is away ends no wait, nor does a look that the end of the wait cuts short; what the store says does.
func TestWaitOutlivesTheStoresAbsence(t *testing.T) {
	t.Parallel()
	type answer struct {
		status messages.Status
		err    error
	}
	away, slow := fmt.Errorf("reset: %w", store.ErrUnavailable), fmt.Errorf("no answer: %w", context.DeadlineExceeded)
	running, completed := answer{status: messages.Running}, answer{status: messages.Completed}
	for name, c := range map[string]struct {
		answers []answer
		want    answer
	}{
		"away for a while":            {[]answer{running, {err: away}, {err: slow}, {err: away}, completed}, completed},
		"away from the start":         {[]answer{{err: away}}, answer{err: away}},
		"away until the wait's end":   {[]answer{running, {err: away}, {err: away}, {err: away}, {err: away}}, answer{err: away}},
		"back at the wait's end":      {[]answer{running, {err: away}, {err: away}, {err: away}, running}, running},
		"cut short by the wait's end": {[]answer{running, {err: away}, {err: away}, {err: context.Canceled}, running}, running},
		"cut short at once":           {[]answer{{err: context.Canceled}, running}, running},
		"purged meanwhile":            {[]answer{running, {err: store.ErrNotFound}}, answer{err: store.ErrNotFound}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // looks at 0, 5, 15 and 35 s
				defer cancel()
				var got answer
				e, err := NewOutcomes().Wait(ctx, messages.NewExecutionID(), func(context.Context, messages.ExecutionID) (messages.Execution, error) {
					got, c.answers = c.answers[0], c.answers[1:]
					if errors.Is(got.err, context.Canceled) {
						cancel()
					}
					return messages.Execution{Status: got.status}, got.err
				})
				require.Equal(t, c.want, answer{e.Status, err})
				require.Empty(t, c.answers, "each look was made")
			})
		})
	}
}

func TestOutcomesAreBounded(t *testing.T) {
	t.Parallel()
	o := NewOutcomes()
	o.count = waitersMax
	_, _, err := o.Subscribe(messages.NewExecutionID())
	require.ErrorIs(t, err, ErrTooManyWaiters)
	_, err = o.Wait(t.Context(), messages.NewExecutionID(), nil)
	require.ErrorIs(t, err, ErrTooManyWaiters)
}

// polls reads what there is of a feed, in looks of at most two events.
func polls(b *Feeds, id messages.ExecutionID, at Poll) (seen []string, p Polled) {
	for {
		room := 2
		p = b.Poll(id, at, func(*messages.RunEvent) bool { room--; return room >= 0 })
		for _, h := range p.Events {
			seen = append(seen, h.Message)
		}
		if at = p.Next; !p.More {
			return seen, p
		}
	}
}

func say(b *Feeds, id messages.ExecutionID, texts ...string) {
	for _, text := range texts {
		b.Add(id, messages.RunEvent{Kind: "log", Message: text})
	}
}

// One that polls sees every event once, those before its first look and those behind its last one too, and the end.
func TestAFeedIsPolledToItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, id := NewFeeds(), messages.NewExecutionID()
		seen, p := polls(b, id, Poll{})
		require.Empty(t, seen)
		require.False(t, p.Ended, "it is waited for")
		say(b, id, "a", "b", "c")
		seen, p = polls(b, id, p.Next)
		require.Equal(t, []string{"a", "b", "c"}, seen)
		seen, p = polls(b, id, p.Next)
		require.Empty(t, seen)
		say(b, id, "d")
		b.Close(id)
		require.Empty(t, b.feeds)
		seen, p = polls(b, id, p.Next)
		require.Equal(t, []string{"d"}, seen)
		require.True(t, p.Ended)
		again, p := polls(b, id, p.Next)
		require.Empty(t, again)
		require.True(t, p.Ended, "the end may be asked for twice")

		say(b, id, "e") // another attempt on this node
		time.Sleep(lingerTime / 2)
		_, p = polls(b, id, p.Next)
		require.True(t, p.Ended, "its own feed first")
		time.Sleep(lingerTime)
		seen, p = polls(b, id, p.Next)
		require.Equal(t, []string{"e"}, seen, "then the other from its beginning")
		require.False(t, p.Ended)
	})
}

// What is kept for those that poll goes once nobody does.
func TestFeedsThatNobodyPollsAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewFeeds()
		for range earlyMax + 1 {
			polls(b, messages.NewExecutionID(), Poll{})
		}
		require.Len(t, b.feeds, earlyMax, "so many are waited for at most")
		time.Sleep(lingerTime + 1)
		for range lingerMax + 1 {
			id := messages.NewExecutionID()
			say(b, id, "a")
			polls(b, id, Poll{})
			b.Close(id)
		}
		require.Empty(t, b.feeds)
		require.Empty(t, b.early)
		require.Len(t, b.ended, lingerMax)
		time.Sleep(lingerTime + 1)
		unread := messages.NewExecutionID()
		say(b, unread, "a")
		b.Close(unread)
		require.Empty(t, b.ended)
		require.Empty(t, b.feeds)
	})
}

// A run that begins and ends between two looks elsewhere can be followed afterwards, once it was waited for; and who has
// followed one attempt goes on with the next.
func TestAnExecutionIsFollowedOverItsFeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, id, over := NewFeeds(), messages.NewExecutionID(), make(chan *messages.Execution)
		close(over)
		var at Poll
		from := func() (seen []string) {
			var err error
			at, err = b.FollowFrom(t.Context(), id, at, over, func(h messages.RunEvent) error {
				seen = append(seen, h.Message)
				return nil
			})
			require.NoError(t, err)
			return seen
		}
		require.Empty(t, from())
		b.Await(id)
		time.Sleep(time.Second)
		say(b, id, "a", "b")
		b.Close(id)
		require.Equal(t, []string{"a", "b"}, from(), "it has ended meanwhile")
		require.Empty(t, from())
		b.Await(id)
		say(b, id, "c")
		require.Equal(t, []string{"c"}, from())
		say(b, id, "d")
		b.Close(id)
		require.Equal(t, []string{"d"}, from(), "the rest of it")
		require.Empty(t, from())
		time.Sleep(2 * lingerTime)
		b.Await(messages.NewExecutionID())
		require.Empty(t, b.ended)
		require.Len(t, b.feeds, 1)
	})
}
