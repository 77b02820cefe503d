package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
)

// letters waits for so many dead letters.
func (k *kit) letters(count int) []store.DeadLetter {
	k.t.Helper()
	var list []store.DeadLetter
	k.until("dead letters", func() bool {
		var err error
		list, err = k.DeadLetters().ListDeadLetters(k.t.Context(), 0, 100)
		require.NoError(k.t, err)
		return len(list) >= count
	})
	require.Len(k.t, list, count)
	return list
}

func TestAMessageThatExpiresFailsItsExecution(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*node.Config)
		with   []request
	}{
		"queue's TTL":      {func(c *node.Config) { c.Broker.WorkerTTL = 200 * time.Millisecond }, nil},
		"action's timeout": {func(*node.Config) {}, []request{timeout(0.2)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paused := newPausedBroker()
			k := lab(t, func(cfg *node.Config) {
				handle(map[string]messages.Handler{"noop": noop})(cfg)
				cfg.ClaimSweepOff, cfg.ClaimTimeout, cfg.WrapBroker = true, 50*time.Millisecond, paused.wrap
				c.change(cfg)
			}, goPack(t, map[string]string{"noop": "max_retries: 1\nretry: {base: 1h, max: 2h}\n"}))
			e := k.run("t.noop", nil, c.with...)
			require.Equal(t, messages.Failed, e.Status)
			require.Equal(t, messages.CodeQueueTimeout, e.Error.Code)
			require.Equal(t, "Worker queue TTL expired: message expired in worker queue (worker unavailable)", e.Error.Message)
			require.Equal(t, "dead_letter_handler", e.Error.FailedBy)
			require.Equal(t, "queue_timeout", k.get(e.RetriedAs).RetryReason)
			letter := k.letters(1)[0]
			require.Equal(t, e.ID, letter.Execution)
			require.Equal(t, e.Attempt, letter.Attempt)
			require.Equal(t, "expired", letter.Reason)
			require.Equal(t, "failed", letter.Resolution)
			require.Equal(t, "t.noop", letter.Action)
			require.NotEmpty(t, letter.Worker)
			require.Positive(t, letter.BodySize)
			require.Nil(t, letter.Body, "a list carries no bodies")
			require.Contains(t, string(letter.Headers), "expired")
			require.Contains(t, k.log.String(), "Received dead letter for execution")
		})
	}
}

func TestDeadLettersOfWhatHasMovedOnChangeNothing(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, handle(map[string]messages.Handler{"block": block.run}), goPack(t, map[string]string{"block": ""}))
	id := k.submit("t.block", nil)
	block.next(t)
	e := k.get(id)
	work := func(p messages.Placement) []byte {
		body, err := broker.Work{Worker: e.Worker, Placements: []messages.Placement{p}}.Encode()
		require.NoError(t, err)
		return body
	}
	queue := (broker.Settings{}).DeadLetterQueue()
	for _, body := range [][]byte{
		work(e.Placement()), work(messages.Placement{Execution: messages.NewExecutionID(), Attempt: 1}), []byte(`{"v":7}`), []byte("\x00\xff"),
	} {
		confirms, err := k.Broker().Publish(t.Context(), []broker.Message{{RoutingKey: queue, Body: body}})
		require.NoError(t, err)
		require.Equal(t, broker.Confirmed, confirms[0])
	}
	resolutions := map[string]int{}
	for _, letter := range k.letters(4) {
		resolutions[letter.Resolution[:min(len(letter.Resolution), 11)]]++
	}
	require.Equal(t, map[string]int{"stale": 1, "missing": 1, "quarantined": 2}, resolutions)
	require.Equal(t, 2, k.logged("Received dead letter for execution"), "for each letter about an execution")
	k.until("the first of the others is told, and then one a minute", func() bool { return k.logged("dead letter quarantined") == 1 })
	require.Equal(t, messages.Running, k.get(id).Status)
	close(block.open)
	require.Equal(t, messages.Completed, k.await(id).Status)
}

func TestAMalformedMessageOnAWorkersQueueIsQuarantined(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"noop": noop}), goPack(t, map[string]string{"noop": ""}))
	k.ready("go", 0, 0)
	queue := (broker.Settings{}).PoolQueueName("test", "go", k.Incarnation())
	elsewhere, err := broker.Work{
		Worker:     messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "go"},
		Placements: []messages.Placement{{Execution: messages.NewExecutionID(), Attempt: 1}},
	}.Encode()
	require.NoError(t, err)
	k.until("the workers' queue is there", func() bool { // a worker is ready before its queue is
		_, err := k.Broker().Inspect(t.Context(), queue)
		return err == nil
	})
	for _, body := range []string{"oops", `{"v":99}`, string(elsewhere)} {
		confirms, err := k.Broker().Publish(t.Context(), []broker.Message{{RoutingKey: queue, Body: []byte(body)}})
		require.NoError(t, err)
		require.Equal(t, broker.Confirmed, confirms[0])
	}
	for _, letter := range k.letters(3) {
		require.Contains(t, letter.Resolution, "quarantined")
		require.Equal(t, queue, letter.Queue)
	}
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
}

func TestADeadLetterIsRequeuedOrDiscarded(t *testing.T) {
	t.Parallel()
	paused := newPausedBroker()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.ClaimSweepOff, c.Broker.WorkerTTL, c.WrapBroker = true, 200*time.Millisecond, paused.wrap
	}, goPack(t, map[string]string{"noop": ""}))
	first := k.run("t.noop", nil)
	require.Equal(t, messages.CodeQueueTimeout, code(first))
	paused.release()
	letter := k.letters(1)[0]
	again, err := k.RequeueDeadLetter(t.Context(), letter.ID, "ann")
	require.NoError(t, err)
	require.Equal(t, first.ID, again.Execution.Original)
	require.False(t, again.Existing)
	require.Equal(t, messages.Completed, k.await(again.Execution.ID).Status)
	twice, err := k.RequeueDeadLetter(t.Context(), letter.ID, "ann")
	require.NoError(t, err)
	require.True(t, twice.Existing)
	require.Equal(t, again.Execution.ID, twice.Execution.ID, "an execution has one retry")
	letter, err = k.DeadLetters().GetDeadLetter(t.Context(), letter.ID)
	require.NoError(t, err)
	require.Equal(t, "requeued", letter.Resolution)
}

func TestTheTimeoutMonitorIsTheLastNet(t *testing.T) {
	t.Parallel()
	paused := newPausedBroker()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.ClaimSweepOff, c.Broker.DeadLettersOff, c.WrapBroker = true, true, paused.wrap
		c.Broker.WorkerTTL, c.ScheduledTimeout, c.TimeoutCheckInterval = time.Millisecond, 10_001*time.Millisecond, 100*time.Millisecond
	}, goPack(t, map[string]string{"noop": ""}))
	e := k.run("t.noop", nil)
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodeStartTimeout, e.Error.Code)
	require.Equal(t, "Execution timeout: worker did not pick up task within timeout", e.Error.Message)
	require.Equal(t, "execution_timeout_monitor", e.Error.FailedBy)
	require.GreaterOrEqual(t, e.FinishedAt.Sub(e.FirstPlacedAt), 10*time.Second)
	require.Contains(t, k.log.String(), "Execution has been scheduled for too long")
	require.Contains(t, k.log.String(), "Dead letter handler disabled")
}

func TestWhatIsNotClaimedIsTakenBackAndBacksOff(t *testing.T) {
	t.Parallel()
	paused := newPausedBroker()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.ClaimTimeout, c.WrapBroker = 50*time.Millisecond, paused.wrap
	}, goPack(t, map[string]string{"noop": ""}))
	id := k.submit("t.noop", nil, session("a", messages.AffinityHint)) // so the placement is stored
	k.until("it was taken back five times", func() bool { return k.get(id).TakeBacks >= 5 })
	k.until("it says so", func() bool {
		why, err := k.Why(t.Context(), id)
		require.NoError(t, err)
		return why.Reason == "backed_off"
	})
	paused.release()
	e := k.await(id)
	require.Equal(t, messages.Completed, e.Status)
	require.GreaterOrEqual(t, e.Attempt, messages.Attempt(6))
	require.Zero(t, e.RetryCount)
	require.Zero(t, e.CrashCount)
	require.Contains(t, k.scrape(), `troupe_take_backs_total{pool="go",reason="`)
}

// The head of a strict session keeps its place while it is backed off, and those behind it say so.
func TestABackedOffHeadKeepsItsPlaceInItsSession(t *testing.T) {
	t.Parallel()
	paused := newPausedBroker()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.ClaimTimeout, c.WrapBroker = 50*time.Millisecond, paused.wrap
	}, goPack(t, map[string]string{"noop": ""}))
	var ids []messages.ExecutionID
	for range 3 {
		ids = append(ids, k.submit("t.noop", nil, session("a", messages.AffinityStrict)))
	}
	k.until("those behind its back-off say so", func() bool {
		why, err := k.Why(t.Context(), ids[2])
		require.NoError(t, err)
		return why.Reason == "session_backed_off" && why.Until.Equal(k.get(ids[0]).RunAt)
	})
	require.GreaterOrEqual(t, k.get(ids[0]).TakeBacks, 5)
	require.Zero(t, k.get(ids[1]).Attempt, "nothing has overtaken it")
	paused.release()
	var last time.Time
	for _, id := range ids {
		e := k.await(id)
		require.Equal(t, messages.Completed, e.Status)
		require.True(t, e.StartedAt.After(last), "in the order of insertion")
		last = e.StartedAt
	}
}

func TestTheDispatchEchoTellsOfAPoolThatDoesNotDeliver(t *testing.T) {
	t.Parallel()
	paused := newPausedBroker()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.EchoInterval, c.WrapBroker = 100*time.Millisecond, paused.wrap
	}, goPack(t, map[string]string{"noop": ""}))
	k.ready("go", 0, 0)
	k.until("its echo is late", func() bool { return contains(k.pool("go").Reason, "does not deliver") })
	paused.release()
	k.until("it delivers again", func() bool { return k.pool("go").Reason == "" })
	require.Contains(t, k.scrape(), `troupe_dispatch_echo_late_total{pool="go"}`)
	require.Contains(t, k.scrape(), `troupe_dispatch_echo_seconds_count{pool="go"}`)
}
