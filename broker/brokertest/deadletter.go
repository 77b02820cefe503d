package brokertest

import (
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
)

// earlier is how much too early a message may seem to expire, because a server counts whole milliseconds on its own
// clock.
const earlier = 50 * time.Millisecond

func queueTTL(b *bench) {
	dlx, dead := b.deadLetters()
	queue := b.queue("work", withTTL(300*time.Millisecond), withDLX(dlx))
	before := time.Now()
	b.send(queue, 1)
	d := b.receive(b.consume(b, dead, 1))
	require.GreaterOrEqual(b, time.Since(before), 300*time.Millisecond-earlier)
	require.Equal(b, dlx, d.Exchange)
	require.Equal(b, queue, d.RoutingKey)
	require.Equal(b, dead, d.Queue)
	require.Equal(b, "0", d.ID)
	require.Equal(b, "{}", string(d.Body))
	require.Len(b, d.Deaths, 1)
	death := d.Deaths[0]
	require.WithinDuration(b, time.Now(), death.At, patience)
	death.At = time.Time{}
	require.Equal(b, broker.Death{Reason: broker.DeathExpired, Queue: queue, RoutingKey: queue, Count: 1}, death)
	require.NoError(b, d.Ack())
	b.ready(queue, 0)
}

func lowerHolds(b *bench) {
	dlx, dead := b.deadLetters()
	long := b.queue("long", withTTL(time.Hour), withDLX(dlx))
	short := b.queue("short", withTTL(200*time.Millisecond), withDLX(dlx))
	none := b.queue("none", withDLX(dlx))
	b.send(long, 1, withExpiration(200*time.Millisecond))
	b.send(short, 1, withExpiration(time.Hour))
	b.send(none, 1, withExpiration(200*time.Millisecond))
	want := map[string]time.Duration{long: 200 * time.Millisecond, short: time.Hour, none: 200 * time.Millisecond}
	c := b.consume(b, dead, 3)
	for range 3 {
		d := b.receive(c)
		require.Len(b, d.Deaths, 1)
		require.Equal(b, broker.DeathExpired, d.Deaths[0].Reason)
		require.Equal(b, want[d.Deaths[0].Queue], d.Deaths[0].Expiration)
		require.Zero(b, d.Expiration, "it must not expire again in the dead-letter queue")
		delete(want, d.Deaths[0].Queue)
		require.NoError(b, d.Ack())
	}
	require.Empty(b, want)
}

// headOfQueue: a message that expires soon waits behind one that expires later.
func headOfQueue(b *bench) {
	dlx, dead := b.deadLetters()
	queue := b.queue("work", withDLX(dlx))
	const long = 1500 * time.Millisecond
	before := time.Now()
	b.send(queue, 1, withExpiration(long))
	b.send(queue, 2, withExpiration(100*time.Millisecond))
	c := b.consume(b, dead, 3)
	for range 3 {
		d := b.receive(c)
		require.GreaterOrEqual(b, time.Since(before), long-earlier)
		require.NoError(b, d.Ack())
	}
}

// unsettledStay: another message of the queue expires, which shows that the time has passed. The unsettled one stays.
func unsettledStay(b *bench) {
	dlx, dead := b.deadLetters()
	queue := b.queue("work", withTTL(500*time.Millisecond), withDLX(dlx))
	c := b.consume(b, queue, 1) // before any message could expire
	b.send(queue, 1)
	held := b.receive(c)
	b.send(queue, 1, func(m *broker.Message) { m.ID = "waits" })
	graves := b.consume(b, dead, 10)
	d := b.receive(graves)
	require.Equal(b, "waits", d.ID)
	require.NoError(b, d.Ack())
	require.NoError(b, held.Ack())
	b.publish(broker.Confirmed, broker.Message{RoutingKey: dead, ID: "marker"})
	d = b.receive(graves)
	require.Equal(b, "marker", d.ID)
	require.NoError(b, d.Ack())
}

// expiredGivenBack: the original expiry holds, so an unsettled message that is given back late expires at once.
func expiredGivenBack(b *bench) {
	dlx, dead := b.deadLetters()
	queue := b.queue("work", withTTL(400*time.Millisecond), withDLX(dlx))
	other := b.connect()
	c := b.consume(other, queue, 1) // before any message could expire
	b.send(queue, 1)
	b.receive(c)
	b.send(queue, 1, func(m *broker.Message) { m.ID = "waits" })
	graves := b.consume(b, dead, 10)
	d := b.receive(graves)
	require.Equal(b, "waits", d.ID)
	require.NoError(b, d.Ack())
	require.NoError(b, other.Close())
	d = b.receive(graves)
	require.Equal(b, "0", d.ID)
	require.Equal(b, broker.DeathExpired, d.Deaths[0].Reason)
	require.NoError(b, d.Ack())
}

func reject(b *bench) {
	dlx, dead := b.deadLetters()
	queue := b.queue("work", withDLX(dlx))
	b.send(queue, 1, withExpiration(time.Hour))
	c := b.consume(b, queue, 1)
	require.NoError(b, b.receive(c).Nack(false))
	d := b.receive(b.consume(b, dead, 1))
	require.Len(b, d.Deaths, 1)
	require.Equal(b, broker.DeathRejected, d.Deaths[0].Reason)
	require.Equal(b, queue, d.Deaths[0].Queue)
	require.Equal(b, time.Hour, d.Deaths[0].Expiration)
	require.Zero(b, d.Expiration)
	require.NoError(b, d.Ack())
}

func rejectDrops(b *bench) {
	queue := b.queue("work")
	b.send(queue, 2)
	c := b.consume(b, queue, 1)
	require.NoError(b, b.receive(c).Nack(false))
	d := b.receive(c)
	require.Equal(b, "1", d.ID)
	require.NoError(b, d.Ack())
	require.NoError(b, c.Cancel())
	b.ready(queue, 0)
}

func deathsNewestFirst(b *bench) {
	dlx, dead := b.deadLetters()
	fan := b.exchange("second", broker.Fanout)
	second := b.queue("two", withDLX(dlx))
	b.bind(fan, second, "")
	first := b.queue("one", withTTL(100*time.Millisecond), withDLX(fan))
	b.send(first, 1)

	require.NoError(b, b.receive(b.consume(b, second, 1)).Nack(false))
	d := b.receive(b.consume(b, dead, 1))
	require.Len(b, d.Deaths, 2)
	require.Equal(b, broker.DeathRejected, d.Deaths[0].Reason)
	require.Equal(b, second, d.Deaths[0].Queue)
	require.Equal(b, fan, d.Deaths[0].Exchange)
	require.Equal(b, broker.DeathExpired, d.Deaths[1].Reason)
	require.Equal(b, first, d.Deaths[1].Queue)
	require.NoError(b, d.Ack())
}

// deliveryLimit holds for quorum queues only.
func deliveryLimit(b *bench) {
	dlx, dead := b.deadLetters()
	const limit = 2
	queue := b.queue("work", withDLX(dlx), func(q *broker.Queue) { q.Quorum, q.DeliveryLimit = true, limit })
	b.send(queue, 1)
	c := b.consume(b, queue, 1)
	for n := range limit + 1 {
		d := b.receive(c)
		require.Equal(b, n > 0, d.Redelivered)
		require.NoError(b, d.Nack(true))
	}
	d := b.receive(b.consume(b, dead, 1))
	require.Equal(b, broker.DeathDeliveryLimit, d.Deaths[0].Reason)
	require.Equal(b, queue, d.Deaths[0].Queue)
	require.NoError(b, d.Ack())
}

// noDeliveryLimit gives a message back more than 20 times, which is RabbitMQ 4's limit for a queue without one. A
// bridge gives messages back while the store is unavailable.
func noDeliveryLimit(b *bench) {
	dlx, dead := b.deadLetters()
	queue := b.queue("work", withDLX(dlx))
	b.send(queue, 1)
	c := b.consume(b, queue, 1)
	for range 30 {
		require.NoError(b, b.receive(c).Nack(true))
	}
	require.NoError(b, b.receive(c).Ack())
	b.ready(dead, 0)
}

func deleteDrops(b *bench) {
	dlx, dead := b.deadLetters()
	queue := b.queue("work", withDLX(dlx))
	b.send(queue, 3)
	c := b.consume(b, queue, 1)
	b.receive(c)
	require.NoError(b, b.Delete(b.Context(), queue))
	b.ended(c)
	require.ErrorIs(b, c.Err(), broker.ErrNoQueue)
	_, err := b.Inspect(b.Context(), queue)
	require.ErrorIs(b, err, broker.ErrNoQueue)
	b.publish(broker.Returned, broker.Message{RoutingKey: queue})

	b.publish(broker.Confirmed, broker.Message{RoutingKey: dead, ID: "marker"})
	d := b.receive(b.consume(b, dead, 1))
	require.Equal(b, "marker", d.ID, "deleting must not dead-letter")
	require.NoError(b, d.Ack())
}

// queueExpires tests for the queue by publishing, which does not count as use; Inspect keeps a classic queue alive. A
// server may close the connection of a publisher at the moment at which a queue expires (RabbitMQ 3.10: 541 on quorum
// queues). So an adapter may be unavailable for a moment.
func queueExpires(b *bench) {
	const life = 5 * time.Second
	expires := func(q *broker.Queue) { q.Expires = life }
	used := b.queue("used", expires)
	c := b.consume(b, used, 1)
	before := time.Now()
	unused := b.queue("unused", expires)
	b.eventually("the unused queue has gone", func() bool {
		confirms, err := b.Publish(b.Context(), []broker.Message{{RoutingKey: unused}})
		if errors.Is(err, broker.ErrUnavailable) {
			return false
		}
		require.NoError(b, err)
		return confirms[0] == broker.Returned
	})
	require.GreaterOrEqual(b, time.Since(before), life-earlier)
	b.send(used, 1)
	require.NoError(b, b.receive(c).Ack())
}
