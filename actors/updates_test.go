package actors

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// lookout is an updates bridge on hints that a test gives.
type lookout struct {
	mu      sync.Mutex
	hints   chan store.Hint
	opens   int
	refuse  int // how many openings fail
	did     []string
	inbox   int // full batches that wait
	failing error
}

func (l *lookout) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.did = append(l.did, what)
}

func (l *lookout) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	did := l.did
	l.did = nil
	return did
}

func (l *lookout) watch(context.Context) (<-chan store.Hint, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opens++
	if l.refuse > 0 {
		l.refuse--
		return nil, store.ErrUnavailable
	}
	l.hints = make(chan store.Hint)
	return l.hints, nil
}

func (l *lookout) open(t *testing.T) {
	t.Helper()
	s := newSystem(t)
	_, err := s.Spawn(s, NewUpdates(UpdatesConfig{
		System: s, Watch: l.watch, Logger: hclog.NewNullLogger(), Every: time.Minute,
		Requested: func(pool string) { l.note("wake " + pool) },
		Finished:  func(id messages.ExecutionID) { l.note("finished " + id.String()) },
		Router:    func() { l.note("router") },
		Cancel:    func(_ context.Context, id messages.ExecutionID) error { l.note("cancel " + id.String()); return nil },
		Look: func(context.Context) error {
			l.note("look")
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.failing
		},
		Inbox: func(context.Context) (bool, error) {
			l.note("inbox")
			l.mu.Lock()
			defer l.mu.Unlock()
			l.inbox--
			return l.inbox > 0, l.failing
		},
	}))
	require.NoError(t, err)
	synctest.Wait()
}

func (l *lookout) say(h store.Hint) {
	l.hints <- h
	synctest.Wait()
}

func TestUpdatesPassHintsOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &lookout{}
		l.open(t)
		require.Equal(t, []string{"look", "inbox"}, l.all(), "a watch that begins has missed hints")
		id := messages.NewExecutionID()
		for hint, want := range map[store.Hint][]string{
			{Kind: store.HintRequested, Pool: "p"}:    {"wake p"},
			{Kind: store.HintFinished, Execution: id}: {"finished " + id.String()},
			{Kind: store.HintCancel, Execution: id}:   {"cancel " + id.String()},
			{Kind: store.HintCancel}:                  {"look"},
			{Kind: store.HintInbox}:                   {"inbox"},
			{Kind: store.HintRouter}:                  {"router"},
			{Kind: store.HintLook}:                    {"look", "inbox"},
			{Kind: 99}:                                nil,
		} {
			l.say(hint)
			require.Equal(t, want, l.all(), "%v", hint)
		}
	})
}

func TestUpdatesEmptyTheInboxByThemselves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &lookout{}
		l.open(t)
		l.all()
		l.mu.Lock()
		l.inbox = 3
		l.mu.Unlock()
		// The times between two looks are spread by a tenth around a minute, so each is waited for by itself.
		next := func() (did []string) {
			for range 67 {
				time.Sleep(time.Second)
				synctest.Wait()
				if did = l.all(); len(did) > 0 {
					break
				}
			}
			return did
		}
		require.Equal(t, []string{"inbox", "inbox", "inbox"}, next(), "batch after batch, without any hint")
		l.mu.Lock()
		l.failing = errors.New("the store is away")
		l.mu.Unlock()
		require.Equal(t, []string{"inbox"}, next())
		require.Equal(t, []string{"inbox"}, next(), "an error does not end it")
	})
}

// A look or a cancel that fails is made up for by a look at everything, once a round succeeds, and holds the inbox up no more.
func TestUpdatesLookAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &lookout{failing: store.ErrUnavailable}
		l.open(t)
		require.Equal(t, []string{"look", "inbox"}, l.all())
		for range 2 {
			time.Sleep(67 * time.Second)
			synctest.Wait()
			require.Equal(t, []string{"look", "inbox"}, l.all()[:2])
		}
		l.mu.Lock()
		l.failing = nil
		l.mu.Unlock()
		time.Sleep(67 * time.Second)
		l.all()
		time.Sleep(67 * time.Second)
		synctest.Wait()
		require.NotContains(t, l.all(), "look", "it has succeeded")
	})
}

func TestUpdatesWatchAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &lookout{}
		l.open(t)
		l.all()
		l.mu.Lock()
		l.refuse = 2
		close(l.hints)
		l.mu.Unlock()
		time.Sleep(watchWait + time.Millisecond)
		synctest.Wait()
		require.Equal(t, 2, l.opens)
		require.Empty(t, l.all())
		time.Sleep(2*watchWait + 4*watchWait)
		synctest.Wait()
		require.Equal(t, 4, l.opens)
		require.Equal(t, []string{"look", "inbox"}, l.all())
		l.say(store.Hint{Kind: store.HintRequested, Pool: "p"})
		require.Equal(t, []string{"wake p"}, l.all())
	})
}
