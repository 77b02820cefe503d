package faulty_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/brokertest/faulty"
	"github.com/troupe-run/troupe/broker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes a broker with one queue.
func open(t *testing.T) broker.Broker {
	b := memory.New(memory.Config{})
	require.NoError(t, b.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: "work"}}}))
	return b
}

func closing(t *testing.T, f *faulty.Broker) *faulty.Broker {
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func ready(t *testing.T, b broker.Broker) int {
	info, err := b.Inspect(t.Context(), "work")
	require.NoError(t, err)
	return info.Ready
}

var one = []broker.Message{{RoutingKey: "work", ID: "1"}}

func TestRefusedDoesNothing(t *testing.T) {
	t.Parallel()
	b := open(t)
	f := closing(t, faulty.New(b, faulty.Config{Refused: 100}))
	confirms, err := f.Publish(t.Context(), one)
	require.ErrorIs(t, err, broker.ErrUnavailable)
	require.Equal(t, []broker.Confirm{broker.Unknown}, confirms)
	require.Zero(t, ready(t, b))
	_, err = f.Consume(t.Context(), "work", 1)
	require.ErrorIs(t, err, broker.ErrUnavailable)
	require.ErrorIs(t, f.Delete(t.Context(), "work"), broker.ErrUnavailable)
	require.ErrorIs(t, f.Declare(t.Context(), broker.Topology{}), broker.ErrUnavailable)
	require.Equal(t, faulty.Counts{Refused: 4}, f.Counts())
}

func TestLostConfirmsLeaveTheMessage(t *testing.T) {
	t.Parallel()
	b := open(t)
	f := closing(t, faulty.New(b, faulty.Config{Lost: 100}))
	confirms, err := f.Publish(t.Context(), one)
	require.ErrorIs(t, err, broker.ErrUnavailable)
	require.Equal(t, []broker.Confirm{broker.Unknown}, confirms)
	require.Equal(t, 1, ready(t, b))
}

func TestTwiceIsThereTwice(t *testing.T) {
	t.Parallel()
	b := open(t)
	f := closing(t, faulty.New(b, faulty.Config{Twice: 100, Delayed: 50}))
	confirms, err := f.Publish(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, []broker.Confirm{broker.Confirmed}, confirms)
	require.Equal(t, 2, ready(t, b))

	c, err := f.Consume(t.Context(), "work", 2)
	require.NoError(t, err)
	for range 2 {
		d := <-c.Deliveries()
		require.Equal(t, "1", d.ID)
		require.NoError(t, d.Ack())
	}
	require.NoError(t, c.Cancel())
	_, open := <-c.Deliveries()
	require.False(t, open)
	require.NoError(t, c.Err())
}

func TestCancelGivesBackWhatNobodyRead(t *testing.T) {
	t.Parallel()
	b := open(t)
	f := closing(t, faulty.New(b, faulty.Config{Delayed: 1}))
	_, err := f.Publish(t.Context(), []broker.Message{one[0], one[0], one[0]})
	require.NoError(t, err)
	c, err := f.Consume(t.Context(), "work", 2)
	require.NoError(t, err)
	held := <-c.Deliveries()
	require.NoError(t, c.Cancel())
	require.NoError(t, held.Ack())
	require.Equal(t, 2, ready(t, b))
}

// TestBenchMakesUpForFaults: the caller gets each message once, while the queue holds copies.
func TestBenchMakesUpForFaults(t *testing.T) {
	t.Parallel()
	inner := memory.New(memory.Config{})
	b := faulty.NewBench(1).Wrap(inner)
	defer func() { require.NoError(t, b.Close()) }()
	require.NoError(t, b.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: "work"}}}))
	const n = 200
	for i := range n {
		confirms, err := b.Publish(t.Context(), []broker.Message{{RoutingKey: "work", ID: strconv.Itoa(i)}})
		require.NoError(t, err)
		require.Equal(t, []broker.Confirm{broker.Confirmed}, confirms)
	}
	require.Equal(t, n, ready(t, b))
	require.Greater(t, ready(t, inner), n)
	c, err := b.Consume(t.Context(), "work", 10)
	require.NoError(t, err)
	for i := range n {
		d := <-c.Deliveries()
		require.Equal(t, strconv.Itoa(i), d.ID)
		require.NoError(t, d.Ack())
	}
}
