package api

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

const mib = 1 << 20

// admitted reports whether a call gets room at once.
func admitted(t *testing.T, a *answer, bytes int64) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := a.Admit(ctx, bytes)
	if err != nil {
		var p *messages.Problem
		require.ErrorAs(t, err, &p)
		require.Equal(t, 503, StatusOf(p))
	}
	return err == nil
}

func TestAnswersAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	q := &answers{max: 64 * mib}
	call := func(name string) *answer { return &answer{of: q, caller: name} }
	ann := []*answer{call("ann"), call("ann"), call("ann"), call("ann")}
	for _, a := range ann {
		require.True(t, admitted(t, a, 8*mib))
		require.True(t, admitted(t, a, 8*mib), "it has that much")
	}
	require.False(t, admitted(t, call("ann"), mib), "half is what one token may have")
	require.True(t, admitted(t, call("ann"), 64<<10), "what is short is not counted")
	require.True(t, admitted(t, call("bob"), 16*mib))
	require.False(t, admitted(t, call("bob"), mib))
	require.True(t, admitted(t, call("eve"), 12*mib), "one call of each token is admitted while there is room")
	require.False(t, admitted(t, call("joe"), 8*mib))
	require.Equal(t, int64(60*mib), q.now)
	for _, a := range ann {
		a.release()
		a.release()
	}
	require.Equal(t, int64(28*mib), q.now)
	require.NotContains(t, q.own, "ann")
	huge := call("ann")
	require.False(t, admitted(t, huge, 1<<40))
	require.Empty(t, q.queue)
}

// A call waits until there is room, in order, and no longer than its bound.
func TestAnswersWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &answers{max: 64 * mib}
		first := &answer{of: q, caller: "ann"}
		require.NoError(t, first.Admit(t.Context(), 1<<40), "the largest has all the room")
		began := time.Now()
		require.Error(t, (&answer{of: q, caller: "bob"}).Admit(t.Context(), mib))
		require.Equal(t, answerWait, time.Since(began))
		got := make(chan string, 3)
		for _, name := range []string{"bob", "eve", "joe"} {
			go func() {
				if (&answer{of: q, caller: name}).Admit(t.Context(), 40*mib) == nil {
					got <- name
				}
			}()
			synctest.Wait()
		}
		first.release()
		synctest.Wait()
		require.Len(t, got, 1)
		require.Equal(t, "bob", <-got)
		time.Sleep(answerWait)
		synctest.Wait()
		require.Empty(t, got)
		require.Empty(t, q.queue)
	})
}

// A call that needs more gives back what it has before it waits, so that calls never wait for each other's.
func TestAnAnswerThatGrowsWaitsWithNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &answers{max: 64 * mib}
		calls := []*answer{{of: q, caller: "ann"}, {of: q, caller: "bob"}}
		ended := make(chan error, len(calls))
		for _, a := range calls {
			require.NoError(t, a.Admit(t.Context(), 16*mib))
		}
		for _, a := range calls {
			go func() {
				err := a.Admit(t.Context(), 60*mib)
				a.release()
				ended <- err
			}()
		}
		for range calls {
			require.NoError(t, <-ended)
		}
		require.Zero(t, q.now)
	})
}
