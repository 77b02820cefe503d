package actors

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goroutines of a burst stay for the next one, and all end when there is none.
func TestTheDispatcherKeepsItsGoroutinesForAWhile(t *testing.T) {
	d := newDispatcher()
	for range 3 {
		var ran atomic.Int64
		var all sync.WaitGroup
		all.Add(1000)
		for range 1000 {
			d.Schedule(func() {
				ran.Add(1)
				all.Done()
			})
		}
		all.Wait()
		require.Equal(t, int64(1000), ran.Load())
	}
	for limit := time.Now().Add(10 * time.Second); d.(*dispatcher).resting.Load() > 0; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(limit), "they must end")
	}
}

// What ends its goroutine takes nothing with it.
func TestTheDispatcherOutlivesAGoroutineThatEnds(t *testing.T) {
	d := newDispatcher()
	for range 3 {
		done := make(chan struct{})
		d.Schedule(func() {
			defer close(done)
			runtime.Goexit()
		})
		<-done
	}
	ran := make(chan struct{})
	d.Schedule(func() { close(ran) })
	<-ran
}

func BenchmarkDispatcher(b *testing.B) {
	d := newDispatcher()
	var all sync.WaitGroup
	for range b.N {
		all.Add(8)
		for range 8 {
			d.Schedule(all.Done)
		}
		all.Wait()
	}
}
