package node_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/submit"
)

func TestRunTimeoutEndsAGoHandlersContext(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, handle(map[string]messages.Handler{"block": block.run}), goPack(t, map[string]string{"block": "timeout_seconds: 60\n"}))
	e := k.run("t.block", nil, timeout(0.1))
	require.Equal(t, messages.TimedOut, e.Status)
	require.Equal(t, messages.CodeTimeout, e.Error.Code)
	require.Equal(t, e.StartedAt.Add(100*time.Millisecond), e.RunDeadline)
}

func TestALeakedGoHandlerIsCountedAndItsSlotReplaced(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{
			"deaf": func(context.Context, *messages.Task) (any, error) { <-release; return nil, nil },
			"noop": noop,
		})(c)
		c.Workers["go"] = 1
	}, goPack(t, map[string]string{"deaf": "max_retries: 3\n", "noop": ""}))
	before := k.ready("go", 0, 0)
	e := k.run("t.deaf", nil, timeout(0.1))
	require.Equal(t, messages.TimedOut, e.Status)
	require.Zero(t, e.RetriedAs, "it may still be at work, so it is not repeated")
	k.ready("go", 0, before.Generation)
	require.Contains(t, k.scrape(), `troupe_leaked_handlers{pool="go"} 1`)
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status, "the slot works again")
	close(release)
	k.until("the leak is over", func() bool { return contains(k.scrape(), `troupe_leaked_handlers{pool="go"} 0`) })
}

func TestRunTimeoutStopsShellWorkWithItsChildren(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, shellPack(t, map[string]string{
		"family": `trap '' TERM; (trap '' TERM; while :; do sleep 0.05; done) & echo $! >> waiting; echo $$ >> waiting; while :; do sleep 0.05; done`,
	}, ""))
	e := k.run("sh.family", nil, timeout(3)) // longer than a busy machine takes to start it
	require.Equal(t, messages.TimedOut, e.Status)
	require.Contains(t, e.Error.Exit, "signal")
	for _, pid := range k.pids("waiting", 2) {
		k.gone(pid)
	}
}

func TestRunTimeoutStopsASpinningPython(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "", map[string]string{"spin": "", "count": ""}))
	before := k.ready("py.lab", 0, 0)
	e := k.run("py.spin", nil, timeout(3), retries(1))
	require.Equal(t, messages.TimedOut, e.Status)
	require.NotZero(t, e.RetriedAs, "a timeout is retriable")
	require.ErrorIs(t, syscall.Kill(before.Pid, 0), syscall.ESRCH, "the outcome is written when the code has stopped")
	k.cancel(e.RetriedAs)
	k.await(e.RetriedAs)
	k.ready("py.lab", 0, before.Generation)
}

func TestStallTimeout(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "", map[string]string{
		"sleep": "stall_timeout: 250ms\n", "steady": "stall_timeout: 5s\n",
	}))
	e := k.run("py.steady", object{"steps": 70, "pause": 0.1})
	require.Equal(t, messages.Completed, e.Status, "progress keeps a long run alive: %v", e.Error)
	e = k.run("py.sleep", nil)
	require.Equal(t, messages.TimedOut, e.Status)
	require.Equal(t, messages.CodeStalled, e.Error.Code)
}

func TestQueueDeadlineBoundsWaitingForBusyWorkers(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"block": block.run})(c)
		c.Workers["go"] = 1
	}, goPack(t, map[string]string{"block": "max_retries: 2\n"}))
	held := k.submit("t.block", nil)
	block.next(t)
	e := k.run("t.block", nil, func(r *submit.Request) { soon := 0.2; r.QueueDeadline = &soon })
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodeQueueDeadline, e.Error.Code)
	require.Zero(t, e.RetriedAs)
	close(block.open)
	require.Equal(t, messages.Completed, k.await(held).Status)
}
