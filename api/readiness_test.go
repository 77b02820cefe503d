package api

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// asked is a node that answers the question after its readiness once it is told to.
type asked struct {
	*backend
	times atomic.Int64
	came  chan struct{}
	goOn  chan struct{}
}

func (a *asked) Ready(context.Context) Readiness {
	a.times.Add(1)
	a.came <- struct{}{}
	<-a.goOn
	return Readiness{Ready: true}
}

// The attack: 64 questions after readiness, for which nobody needs a token, took the places of /healthz, at the port for health
// alone too, while the store did not answer. Whoever runs the node then restarts it.
func TestReadinessKeepsNobodyFromHealth(t *testing.T) {
	t.Parallel()
	const askers = 100
	for name, made := range map[string]func(Config) http.Handler{"API": New, "health": NewHealth} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &asked{backend: newBackend(t), came: make(chan struct{}, askers), goOn: make(chan struct{})}
			h := made(Config{Backend: b})
			answers := make(chan int, askers)
			var all sync.WaitGroup
			for range askers {
				all.Go(func() { answers <- ask(t, h, "GET", "/readyz", "").Code })
			}
			<-b.came
			for range askers {
				require.Equal(t, http.StatusOK, ask(t, h, "GET", "/healthz", "").Code)
			}
			close(b.goOn)
			all.Wait()
			for range askers {
				require.Equal(t, http.StatusOK, <-answers)
			}
			require.Less(t, b.times.Load(), int64(askers/2), "they share answers")
		})
	}
}

// Who asks at the same time, or soon after, gets the same answer. Then the node is asked anew.
func TestReadinessIsAskedOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r readiness
		times, goOn := 0, make(chan struct{})
		find := func(context.Context) Readiness { times++; <-goOn; return Readiness{Ready: times == 1} }
		get := func() (Readiness, error) { return r.get(t.Context(), find, hclog.NewNullLogger()) }
		answers := make(chan Readiness, 100)
		for range cap(answers) {
			go func() {
				is, err := get()
				require.NoError(t, err)
				answers <- is
			}()
		}
		synctest.Wait()
		require.Empty(t, answers)
		close(goOn)
		for range cap(answers) {
			require.True(t, (<-answers).Ready)
		}
		is, err := get()
		require.NoError(t, err)
		require.True(t, is.Ready)
		require.Equal(t, 1, times)
		<-time.After(readyFor)
		is, err = get()
		require.NoError(t, err)
		require.False(t, is.Ready, "the node is asked anew")
		require.Equal(t, 2, times)
	})
}

// A caller who leaves ends its own wait. A node that cannot tell is not ready, and neither is one that panics.
func TestReadinessThatDoesNotCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r readiness
		goOn := make(chan struct{})
		find := func(ctx context.Context) Readiness {
			<-goOn
			require.NoError(t, ctx.Err(), "who asked first has left, and others wait")
			return Readiness{Ready: true}
		}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := r.get(ctx, find, hclog.NewNullLogger())
			left <- err
		}()
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		short, cancel := context.WithTimeout(t.Context(), callTime/2)
		defer cancel()
		is, err := r.get(short, find, hclog.NewNullLogger())
		require.NoError(t, err)
		require.False(t, is.Ready)
		require.Contains(t, is.WaitsFor[0], "could not tell in time")
		close(goOn)
		is, err = r.get(t.Context(), find, hclog.NewNullLogger())
		require.NoError(t, err)
		require.True(t, is.Ready)

		<-time.After(readyFor)
		is, err = r.get(t.Context(), func(context.Context) Readiness { panic("planted") }, hclog.NewNullLogger())
		require.NoError(t, err)
		require.False(t, is.Ready)
		require.Contains(t, is.WaitsFor[0], "its log says why")
	})
}
