package router

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor/part"
)

// order places n executions on a slot whose worker has the queue.
func order(slot messages.Slot, queue string, n int, timeout time.Duration) roster.Publish {
	o := roster.Publish{Worker: messages.WorkerKey{Incarnation: messages.Incarnation{1}, Pool: "pool", Slot: slot}, Queue: queue, Timeout: timeout}
	for range n {
		o.Placements = append(o.Placements, messages.Placement{Execution: messages.NewExecutionID(), Attempt: 1})
	}
	return o
}

func TestWorkersThatShareAQueueShareMessages(t *testing.T) {
	t.Parallel()
	r := New(&part.Shared{Config: &part.Config{}}, nil)
	batches := r.pack([]roster.Publish{
		order(0, "pool", 60, 0), order(1, "pool", 30, 0), order(2, "pool", 20, 0), // 110: two messages
		order(0, "pool", 1, time.Second), // it expires sooner
	})
	require.Len(t, batches, 3)
	require.Len(t, batches[0].work, 2)
	require.Len(t, batches[0].placements(), 90)
	require.Len(t, batches[1].placements(), 20)
	require.Zero(t, batches[1].expiration)
	require.Equal(t, time.Second, batches[2].expiration)
	for i := range batches {
		require.Equal(t, batches[0].queue, batches[i].queue)
		body, err := broker.EncodeWork(batches[i].work)
		require.NoError(t, err)
		back, err := broker.DecodeWork(body)
		require.NoError(t, err)
		require.Equal(t, batches[i].work, back)
	}
}

func TestWorkersWithQueuesOfTheirOwnGetMessagesOfTheirOwn(t *testing.T) {
	t.Parallel()
	r := New(&part.Shared{Config: &part.Config{}}, nil)
	batches := r.pack([]roster.Publish{order(0, "zero", 2, 0), order(1, "one", 1, 0), order(0, "zero", 3, 0)})
	require.Len(t, batches, 2)
	require.NotEqual(t, batches[0].queue, batches[1].queue)
	require.Len(t, batches[0].placements(), 5)
}

// deaf is a broker that takes no messages.
type deaf struct{ broker.Broker }

func (deaf) Publish(_ context.Context, batch []broker.Message) ([]broker.Confirm, error) {
	return make([]broker.Confirm, len(batch)), errors.New("a test said so")
}

// 1,000 publishings that fail are one line, and the next line counts them.
func TestPublishingsThatFailAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, w, _ := alone()
		s.Config.Broker, s.Config.Logger = deaf{}, hclog.New(&hclog.LoggerOptions{Output: &log})
		r := New(s, &ordered{})
		publish := func(n int) {
			for range n {
				r.publishAll(nil)
				w.Answer()
			}
		}
		publish(1000)
		require.Equal(t, 1, strings.Count(log.String(), "placements not published"))
		time.Sleep(time.Minute)
		publish(1)
		require.Equal(t, 2, strings.Count(log.String(), "placements not published"))
		require.Contains(t, log.String(), "left_out=999")
	})
}
