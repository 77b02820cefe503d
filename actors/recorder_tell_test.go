package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Whatever panics while a transaction is told, everybody concerned hears of it: who asked, who waits, the pool and the
// worker. The recorder lives on.
func TestATellingThatPanicsLeavesNobodyWaiting(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*RecorderConfig, messages.ExecutionID){
		"result": func(c *RecorderConfig, bad messages.ExecutionID) {
			c.OnResult = func(item Item, _ store.Result) {
				if item.Change.Target() == bad {
					panic("planted")
				}
			}
		},
		"observer": func(c *RecorderConfig, _ messages.ExecutionID) {
			c.Observe = func(int, time.Duration) { panic("planted") }
		},
		"transaction": func(c *RecorderConfig, _ messages.ExecutionID) {
			c.OnTransaction = func([]Recorded) { panic("planted") }
		},
		"notices": func(c *RecorderConfig, _ messages.ExecutionID) { c.Notices = func() { panic("planted") } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hold := make(chan struct{})
			o := newOffice(t, func(f *faulty) { f.hold = hold })
			ids := o.submit(t, 3)
			require.NoError(t, o.system.StopAndWait(t.Context(), o.recorder))
			var told atomic.Int64
			plant(&o.config, ids[1])
			if planted := o.config.OnResult; planted != nil {
				o.config.OnResult = func(i Item, r store.Result) { told.Add(1); planted(i, r) }
			}
			o.spawn(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			pool, poolPID := hear(t, o.system, "pool")
			worker, workerPID := hear(t, o.system, "worker")
			wait, leave, err := o.outcomes.Subscribe(ids[2])
			require.NoError(t, err)
			defer leave()
			send := func(id messages.ExecutionID, reply *actor.PID) {
				o.system.Send(o.recorder, &Record{Items: []Item{{Change: cancelOf(id)}}, Pool: poolPID, Reply: reply})
			}
			send(ids[0], nil)
			soon(t, func() bool { return len(o.store.transactions()) == 1 }, "under way")
			send(ids[1], workerPID)
			send(ids[2], nil)
			close(hold)
			soon(t, func() bool { return len(of[*Recorded](worker)) == 1 }, "the worker is told")
			soon(t, func() bool {
				n := 0
				for _, c := range of[*Committed](pool) {
					n += len(c.Records)
				}
				return n == 3
			}, "the pool is told of all")
			select {
			case e := <-wait:
				require.Equal(t, ids[2], e.ID)
			case <-ctx.Done():
				require.Fail(t, "who waits is never told")
			}
			_, err = o.ask(ctx, cancelOf(ids[0]))
			require.NoError(t, err, "the recorder goes on")
			if o.config.OnResult != nil {
				require.EqualValues(t, 4, told.Load(), "each result is counted once")
			}
		})
	}
}
