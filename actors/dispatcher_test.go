package actors

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// task is a function as work.
type task func()

func (f task) run() { f() }

// burst has the dispatcher run so many functions at the same time, and waits until all have ended.
func burst(d *dispatcher, n int) {
	open := make(chan struct{})
	for range n {
		d.schedule(task(func() { <-open }))
	}
	synctest.Wait()
	close(open)
	synctest.Wait()
}

// The goroutines of a burst stay for the next one, as many as are bounded. Those that were not needed from one look to the
// next end.
func TestTheDispatcherKeepsGoroutinesForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher()
		burst(d, 8)
		require.Equal(t, int32(8), d.resting.Load(), "they rest")
		burst(d, 5)
		require.Equal(t, int32(8), d.resting.Load(), "and are used again")
		time.Sleep(restTime + time.Millisecond)
		burst(d, 5)
		require.Equal(t, int32(8), d.resting.Load())
		time.Sleep(restTime)
		synctest.Wait()
		require.Equal(t, int32(5), d.resting.Load(), "three of them were not needed")
		time.Sleep(restTime)
		synctest.Wait()
		require.Zero(t, d.resting.Load())
		burst(d, restingMax+10)
		require.Equal(t, int32(restingMax), d.resting.Load(), "no more than that stay")
		time.Sleep(2 * restTime)
	})
}

// What ends its goroutine takes nothing with it.
func TestTheDispatcherOutlivesAGoroutineThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher()
		d.schedule(task(runtime.Goexit))
		synctest.Wait()
		require.Zero(t, d.resting.Load())
		burst(d, 1)
		require.Equal(t, int32(1), d.resting.Load())
		time.Sleep(2 * restTime)
	})
}

func BenchmarkDispatcher(b *testing.B) {
	d := newDispatcher()
	var all sync.WaitGroup
	for range b.N {
		all.Add(8)
		for range 8 {
			d.schedule(task(all.Done))
		}
		all.Wait()
	}
}
