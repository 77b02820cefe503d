package node_test

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
)

// cancel asks for a cancel and returns what it left.
func (k *kit) cancel(id messages.ExecutionID) messages.Execution {
	k.t.Helper()
	e, err := k.Cancel(k.t.Context(), id, "ann")
	require.NoError(k.t, err)
	return e
}

// stopping is what a running execution is after a cancel, which may have been obeyed by the time anybody looks.
var stopping = []messages.Status{messages.Cancelling, messages.Cancelled}

func TestCancelBeforeTheStart(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"block": block.run})(c)
		c.Workers["go"] = 1
	}, goPack(t, map[string]string{"block": "max_retries: 3\n"}))
	held := k.submit("t.block", nil)
	block.next(t)
	waiting := k.submit("t.block", nil)
	ahead := k.submit("t.block", nil, at(time.Now().Add(time.Hour)))
	for _, id := range []messages.ExecutionID{waiting, ahead} {
		e := k.cancel(id)
		require.Equal(t, messages.Cancelled, e.Status)
		require.Equal(t, messages.CodeCancelled, code(k.await(id)))
		require.Equal(t, messages.Cancelled, k.cancel(id).Status, "cancelling again changes nothing")
		require.Len(t, k.events(id)["cancel"], 1)
		require.Zero(t, k.get(id).RetriedAs)
	}
	close(block.open)
	require.Equal(t, messages.Completed, k.await(held).Status)
	require.Equal(t, messages.Completed, k.cancel(held).Status, "an outcome stays")
	require.Empty(t, block.entered, "what was cancelled never ran")
}

func TestCancelOfWhatIsScheduled(t *testing.T) {
	t.Parallel()
	held := newPausedBroker()
	block := newGate()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"block": block.run})(c)
		c.WrapBroker, c.ClaimSweepOff = held.wrap, true // so the placement is stored
	}, goPack(t, map[string]string{"block": ""}))
	id := k.submit("t.block", nil)
	k.becomes(id, messages.Scheduled)
	require.Equal(t, messages.Cancelled, k.cancel(id).Status)
	held.release()
	after := k.submit("t.block", nil)
	require.Equal(t, after, block.next(t).ID, "the stale delivery is dropped")
	close(block.open)
	require.Equal(t, messages.Completed, k.await(after).Status)
}

// An execution that was handed to its worker directly, and is not claimed, waits in the store: a cancel ends it, and its claim finds
// nothing. What is not claimed in time is taken back, with its attempt.
func TestCancelAndTakeBackOfWhatWasHandedOver(t *testing.T) {
	t.Parallel()
	f, g := &fleet{}, newGate()
	close(g.open)
	k := lab(t, among(f, func(c *node.Config) {
		handle(map[string]messages.Handler{"work": g.run})(c)
		c.ClaimTimeout, c.EventsAll = 50*time.Millisecond, true
	}), goPack(t, map[string]string{"work": ""}))
	const plenty = 1 << 40
	f.fenced.Store(plenty) // no claim is made
	id, cancelled := k.submit("t.work", nil), k.submit("t.work", nil)
	k.until("it was taken back five times", func() bool { return k.get(id).TakeBacks >= 5 })
	require.Equal(t, messages.Cancelled, k.cancel(cancelled).Status)
	k.until("it says so", func() bool {
		why, err := k.Why(t.Context(), id)
		require.NoError(t, err)
		return why.Reason == "backed_off"
	})
	f.fenced.Store(0)
	e := k.await(id)
	require.Equal(t, messages.Completed, e.Status)
	require.GreaterOrEqual(t, e.Attempt, messages.Attempt(6))
	require.Zero(t, e.RetryCount+e.CrashCount)
	require.Zero(t, e.ScheduledAt)
	require.Len(t, g.entered, 1, "what was cancelled never ran")
	events := k.events(id)
	require.Empty(t, events["place"], "its placements were not stored")
	require.Len(t, events["claim"], 1)
	require.Equal(t, messages.Requested, events["claim"][0].From)
}

// pausedBroker takes messages and keeps its worker queues' deliveries back until it is released.
type pausedBroker struct {
	broker.Broker
	open chan struct{}
}

func newPausedBroker() *pausedBroker { return &pausedBroker{open: make(chan struct{})} }

func (b *pausedBroker) wrap(inner broker.Broker) broker.Broker {
	b.Broker = inner
	return b
}

func (b *pausedBroker) release() { close(b.open) }

// Declare makes queues that do not go for want of a consumer, which those of the workers have not yet.
func (b *pausedBroker) Declare(ctx context.Context, t broker.Topology) error {
	t.Queues = slices.Clone(t.Queues)
	for i := range t.Queues {
		t.Queues[i].Expires = 0
	}
	return b.Broker.Declare(ctx, t)
}

func (b *pausedBroker) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	if _, worker := (broker.Settings{}).ParseQueueName(queue); !worker {
		return b.Broker.Consume(ctx, queue, prefetch)
	}
	c := &pausedConsumer{out: make(chan broker.Delivery)}
	var stopped context.Context
	stopped, c.stop = context.WithCancel(context.Background())
	go func() {
		defer close(c.out)
		select {
		case <-b.open:
		case <-stopped.Done():
			return
		}
		inner, err := b.Broker.Consume(stopped, queue, prefetch)
		if err != nil {
			return
		}
		defer func() { _ = inner.Cancel() }()
		for {
			select {
			case d, ok := <-inner.Deliveries():
				if !ok {
					return
				}
				select {
				case c.out <- d:
				case <-stopped.Done():
					return
				}
			case <-stopped.Done():
				return
			}
		}
	}()
	return c, nil
}

type pausedConsumer struct {
	out  chan broker.Delivery
	stop context.CancelFunc
}

func (c *pausedConsumer) Deliveries() <-chan broker.Delivery { return c.out }
func (c *pausedConsumer) Cancel() error                      { c.stop(); return nil }
func (c *pausedConsumer) Err() error                         { return nil }

func TestCancelOfRunningGoWork(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, handle(map[string]messages.Handler{"block": block.run}), goPack(t, map[string]string{"block": "max_retries: 3\n"}))
	id := k.submit("t.block", nil)
	block.next(t)
	require.Contains(t, stopping, k.cancel(id).Status)
	e := k.await(id)
	require.Equal(t, messages.Cancelled, e.Status)
	require.Zero(t, e.RetriedAs)
	require.Len(t, k.events(id)["cancel"], 1)
}

func TestAResultThatComesDuringACancelIsKeptInTheDetails(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	k := lab(t, handle(map[string]messages.Handler{"finish": func(ctx context.Context, _ *messages.Task) (any, error) {
		close(entered)
		<-ctx.Done()
		return object{"answer": 42}, nil
	}}), goPack(t, map[string]string{"finish": ""}))
	id := k.submit("t.finish", nil)
	<-entered
	k.cancel(id)
	e := k.await(id)
	require.Equal(t, messages.Cancelled, e.Status)
	require.Contains(t, string(e.Error.Details), "42")
}

func TestCancelOfRunningShellWork(t *testing.T) {
	t.Parallel()
	dir := shellPack(t, map[string]string{
		"polite": `echo $$ >> waiting; while :; do sleep 0.05; done`,
		"deaf":   `trap '' TERM; sh -c 'trap "" TERM; echo $$ >> waiting; while :; do sleep 0.05; done' & echo $$ >> waiting; while :; do sleep 0.05; done`,
	}, "")
	k := lab(t, nil, dir)
	polite := k.submit("sh.polite", nil)
	k.pids("waiting", 1)
	deaf := k.submit("sh.deaf", nil)
	pids := k.pids("waiting", 3)
	for _, id := range []messages.ExecutionID{polite, deaf} {
		require.Contains(t, stopping, k.cancel(id).Status)
		require.Contains(t, stopping, k.cancel(id).Status, "cancelling again changes nothing")
		e := k.await(id)
		require.Equal(t, messages.Cancelled, e.Status)
		require.Contains(t, e.Error.Exit, "signal")
	}
	for _, pid := range pids {
		k.gone(pid)
	}
}

func TestCancelOfRunningPythonWork(t *testing.T) {
	t.Parallel()
	pack := pythonPack(t, "", map[string]string{"sleep": "", "spin": "", "child": "", "count": ""})
	k := lab(t, func(c *node.Config) { c.Graces.Cancel = patience }, pack)
	before := k.ready("py.lab", 0, 0)
	id := k.submit("py.sleep", nil)
	k.becomes(id, messages.Running)
	k.cancel(id)
	require.Equal(t, messages.Cancelled, k.await(id).Status)
	require.Equal(t, before.Pid, k.ready("py.lab", 0, 0).Pid, "code that can be interrupted keeps its worker")

	k = lab(t, nil, pack)
	before = k.ready("py.lab", 0, 0)
	id = k.submit("py.spin", nil) // ignores SIGTERM too
	k.becomes(id, messages.Running)
	require.Equal(t, before.Pid, k.pids("spinning", 1)[0])
	k.cancel(id)
	require.Equal(t, messages.Cancelled, k.await(id).Status)
	after := k.ready("py.lab", 0, before.Generation)
	require.NotEqual(t, before.Pid, after.Pid)
	require.ErrorIs(t, syscall.Kill(before.Pid, 0), syscall.ESRCH)

	id = k.submit("py.child", nil)
	pids := k.pids("child", 1)
	k.cancel(id)
	require.Equal(t, messages.Cancelled, k.await(id).Status)
	require.Positive(t, pids[0])
}

func TestCancelRacesWithCompletion(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"short": func(ctx context.Context, _ *messages.Task) (any, error) {
			select {
			case <-time.After(2 * time.Millisecond):
				return 1, nil
			case <-ctx.Done():
				return nil, errors.New("stopped")
			}
		}})(c)
		c.Workers["go"] = 8
	}, goPack(t, map[string]string{"short": ""}))
	outcomes := map[messages.Status]int{}
	var ids []messages.ExecutionID
	for i := range 200 {
		id := k.submit("t.short", nil)
		ids = append(ids, id)
		if i%3 > 0 {
			k.cancel(ids[max(0, len(ids)-i%3)])
		}
	}
	for _, id := range ids {
		e := k.await(id)
		outcomes[e.Status]++
		require.EqualValues(t, 1, e.Attempt|1)
	}
	require.Equal(t, 200, outcomes[messages.Completed]+outcomes[messages.Cancelled], "%v", outcomes)
	require.NotZero(t, outcomes[messages.Cancelled])
}
