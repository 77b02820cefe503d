package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
)

// BenchmarkFullElsewhere makes two nodes wait for each execution that one of them runs, on Postgres only. It reports how long after the time
// of the outcome the node that ran it answers (here), how long the other one takes (there), and the difference of the two (apart).
func BenchmarkFullElsewhere(b *testing.B) {
	f := startFull(b)
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprint("Callers", callers), func(b *testing.B) {
			for range b.N {
				elsewhere(b, f, callers, scaled(4000)/callers)
			}
		})
	}
}

// elsewhere makes each caller submit a number of executions of 5 ms to one node, and wait for them on both.
func elsewhere(b *testing.B, f *full, callers, each int) {
	url := f.fresh(b)
	runs := start(b, f.at(url, func(c *node.Config) {
		directly(c)
		c.Name, c.Actions = "runs", []messages.Action{{Ref: "b.short", Idempotent: true}}
		c.Handlers = map[string]messages.Handler{"b.short": func(context.Context, *messages.Task) (any, error) {
			time.Sleep(5 * time.Millisecond) // the length of a run
			return "done", nil
		}}
	}))
	waits := start(b, f.at(url, func(c *node.Config) { directly(c); c.Name = "waits" }))
	var mu sync.Mutex
	var here, there, apart []time.Duration
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				ended, near, far, err := twoWaits(runs, waits)
				if err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				here, there, apart = append(here, near.Sub(ended)), append(there, far.Sub(ended)), append(apart, far.Sub(near))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
	percentiles(b, "here", here, time.Microsecond, "us")
	percentiles(b, "there", there, time.Microsecond, "us")
	percentiles(b, "apart", apart, time.Microsecond, "us")
}

// twoWaits submits one execution and waits for it on two nodes. It returns the time of the outcome, and when each node answered.
func twoWaits(runs, waits *node.Node) (ended, near, far time.Time, err error) {
	s, awaited, err := runs.Backend().SubmitAwaited(context.Background(), requests("b.short", 1, "")[0])
	if err != nil {
		return ended, near, far, err
	}
	defer awaited.Leave()
	other := make(chan error, 1)
	go func() {
		_, err := waits.Backend().Wait(context.Background(), s.Execution.ID)
		far = time.Now()
		other <- err
	}()
	e, err := awaited.Wait(context.Background())
	near = time.Now()
	err = errors.Join(err, <-other)
	return e.FinishedAt, near, far, err
}
