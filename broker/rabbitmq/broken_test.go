package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
)

// breakMax bounds the kills until one breaks queues.
const breakMax = 6

// answerTime is how long a queue may take to answer; one without a leader answers nothing.
const answerTime = 5 * time.Second

// broken: a server is killed just after queues were deleted and declared anew. It then ends the connection of any
// consumer of one of them. The broker finds these queues. It makes the expendable ones anew, and does not use the other
// one until it is deleted. The connection is not lost again.
func (r *rig) broken() {
	b := r.open()
	queues := []broker.Queue{{Name: "troupe.test.broken.sound"}}
	for i := range 24 {
		queues = append(queues, broker.Queue{Name: fmt.Sprintf("troupe.test.broken.%d", i), Quorum: true, Expendable: true})
	}
	r.Cleanup(func() { r.each(queues, func(q broker.Queue) error { return b.Delete(context.Background(), q.Name) }) })
	at := r.breakQueues(b, queues)
	if at < 0 {
		r.Logf("%d kills broke no queue of this server: it does not have this fault", breakMax)
		return
	}
	queues[at].Expendable = false
	precious := queues[at]

	patient := func(q broker.Queue) (consumer broker.Consumer, err error) {
		r.eventually(q.Name+" delivers, or is known to be broken", func() bool {
			if err = b.Declare(r.Context(), broker.Topology{Queues: []broker.Queue{q}}); err == nil {
				consumer, err = b.Consume(r.Context(), q.Name, 1)
			}
			return err == nil || errors.Is(err, broker.ErrBroken)
		})
		return consumer, err
	}
	_, err := patient(precious)
	require.ErrorIs(r, err, broker.ErrBroken)
	require.ErrorContains(r, err, precious.Name)
	require.ErrorContains(r, err, "rabbitmqctl delete_queue")
	for i, q := range queues {
		if i != at {
			_, err := patient(q)
			require.NoError(r, err)
		}
	}

	sound, err := patient(queues[0])
	require.NoError(r, err)
	since := b.Status().Since
	for range 3 {
		_, err = b.Consume(r.Context(), precious.Name, 1)
		require.ErrorIs(r, err, broker.ErrBroken)
	}
	confirms, err := b.Publish(r.Context(), []broker.Message{{RoutingKey: precious.Name}, {RoutingKey: queues[0].Name}})
	require.NoError(r, err)
	require.Equal(r, []broker.Confirm{broker.Nacked, broker.Confirmed}, confirms)
	require.NoError(r, b.Delete(r.Context(), precious.Name))
	_, err = patient(precious)
	require.NoError(r, err)
	require.Equal(r, since, b.Status().Since, "no connection was lost once the broken queue was known")
	require.NoError(r, sound.Err())
}

// each calls do for every queue until it succeeds, for some queues at a time.
func (r *rig) each(queues []broker.Queue, do func(broker.Queue) error) {
	var all sync.WaitGroup
	for _, q := range queues {
		all.Go(func() {
			for end := time.Now().Add(patience); ; time.Sleep(tick) {
				err := do(q)
				if err == nil {
					return
				}
				if time.Now().After(end) {
					r.Errorf("queue %s: %v", q.Name, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// breakQueues kills the server just after the queues were made anew, until one queue is broken. It returns that one.
func (r *rig) breakQueues(b *rabbitmq.Broker, queues []broker.Queue) int {
	for range breakMax {
		r.each(queues, func(q broker.Queue) error {
			if err := b.Delete(r.Context(), q.Name); err != nil {
				return err
			}
			return b.Declare(r.Context(), broker.Topology{Queues: []broker.Queue{q}})
		})
		require.NoError(r, r.server.Kill())
		require.NoError(r, r.server.Start())
		for i, q := range queues {
			if r.costsTheConnection(q.Name) {
				return i
			}
		}
	}
	return -1
}

// costsTheConnection consumes from a queue on a separate connection.
func (r *rig) costsTheConnection(queue string) bool {
	c, err := amqp.DialConfig(r.server.URL, amqp.Config{Dial: amqp.DefaultDial(answerTime)})
	require.NoError(r, err)
	defer func() { _ = c.CloseDeadline(time.Now().Add(answerTime)) }()
	stop := time.AfterFunc(answerTime, func() { _ = c.CloseDeadline(time.Now()) })
	defer stop.Stop()
	channel, err := c.Channel()
	require.NoError(r, err)
	_, err = channel.Consume(queue, "", false, false, false, false, nil)
	return err != nil && strings.Contains(err.Error(), "541")
}
