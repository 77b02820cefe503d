package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor/node"
)

func TestRetriesAreAChainWithDelaysAndReasons(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]actors.Handler{"again": tryAgain}), goPack(t, map[string]string{
		"again": "max_retries: 3\nretry: {base: 40ms, multiplier: 2.0, max: 100ms, jitter: 0}\n",
	}))
	id := k.submit("t.again", object{"a": 1})
	chain := k.chain(id, 4)
	for i, e := range chain {
		require.Equal(t, i, e.RetryCount)
		require.Equal(t, messages.Failed, e.Status)
		require.EqualValues(t, "not_yet", e.Error.Code)
		if i == 0 {
			require.Equal(t, id, e.ID)
			require.Zero(t, e.Original)
			continue
		}
		before := chain[i-1]
		require.Equal(t, id, e.Original)
		require.Equal(t, "not_yet", e.RetryReason)
		require.Equal(t, e.ID, before.RetriedAs)
		delay := []time.Duration{0, 40, 80, 100}[i] * time.Millisecond
		// It counts from the decision, which lies between the start before it and the commit.
		require.GreaterOrEqual(t, e.RunAt.Sub(before.StartedAt), delay)
		require.LessOrEqual(t, e.RunAt.Sub(e.RequestedAt), delay)
		require.False(t, e.StartedAt.Before(e.RunAt))
		require.JSONEq(t, `{"a":1}`, string(k.get(e.ID).Parameters))
	}
	require.Zero(t, chain[3].RetriedAs)
	middle, err := k.Chain(t.Context(), chain[2].ID)
	require.NoError(t, err)
	require.Len(t, middle, 4, "any of the chain shows all of it")
}

func TestWhatIsRetriedAndWhatIsNot(t *testing.T) {
	t.Parallel()
	no := false
	failures := map[string]error{
		"text":    errors.New("dial tcp: connection refused"),
		"plain":   errors.New("division by zero"),
		"refused": &messages.Error{Code: "mine", Message: "connection refused", Retriable: &no},
		"final":   &messages.Error{Code: messages.CodePermission, Message: "permission denied"},
	}
	handlers, actions := map[string]actors.Handler{}, map[string]string{}
	for name, err := range failures {
		handlers[name] = func(context.Context, *actors.Task) (any, error) { return nil, err }
		actions[name] = "max_retries: 1\n"
	}
	k := lab(t, handle(handlers), goPack(t, actions))
	for name := range failures {
		e := k.run("t."+name, nil)
		require.Equal(t, messages.Failed, e.Status)
		require.Equal(t, name == "text", !e.RetriedAs.IsZero(), name)
	}
}

func TestManualRetry(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	fail.Store(true)
	block := newGate()
	k := lab(t, handle(map[string]actors.Handler{"work": func(context.Context, *actors.Task) (any, error) {
		if fail.Load() {
			return nil, errors.New("it broke")
		}
		return "done", nil
	}, "block": block.run}), goPack(t, map[string]string{"work": "", "block": ""}))
	first := k.run("t.work", object{"a": 1})
	require.Equal(t, messages.Failed, first.Status)
	fail.Store(false)
	again, err := k.Retry(t.Context(), first.ID)
	require.NoError(t, err)
	require.Equal(t, "manual_retry", again.RetryReason)
	require.Equal(t, first.ID, again.Original)
	require.Equal(t, 1, again.RetryCount)
	require.Equal(t, messages.Completed, k.await(again.ID).Status)
	require.Len(t, k.chain(first.ID, 2), 2)
	running := k.submit("t.block", nil)
	block.next(t)
	for _, id := range []messages.ExecutionID{again.ID, running} {
		_, err = k.Retry(t.Context(), id)
		require.Equal(t, http.StatusConflict, refused(t, err).Status)
	}
	close(block.open)
}

func TestExit75MeansTryAgain(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, shellPack(t, map[string]string{
		"later": `echo x >> tries; [ "$(wc -l < tries)" -ge 3 ] && exit 0; echo not yet >&2; exit 75`,
		"never": `echo broken >&2; exit 3`,
	}, "max_retries: 5\n"))
	chain := k.chain(k.submit("sh.later", nil), 3)
	require.Equal(t, messages.Completed, chain[2].Status)
	require.Equal(t, "exit_status", chain[1].RetryReason)
	require.Contains(t, chain[0].Error.Stderr, "not yet")
	e := k.run("sh.never", nil)
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodeExitStatus, e.Error.Code)
	require.Contains(t, e.Error.Exit, "3")
	require.Contains(t, e.Error.Stderr, "broken")
	require.Zero(t, e.RetriedAs)
}

func TestWorkerLostIsAbandonedUnlessItMayBeRepeated(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) { c.MaxRetries = 1 }, pythonPack(t, "", map[string]string{"crash": "", "count": ""}))
	e := k.run("py.crash", nil)
	require.Equal(t, messages.Abandoned, e.Status)
	require.Equal(t, messages.CodeWorkerLost, e.Error.Code)
	require.Contains(t, e.Error.Exit, "3")
	require.Zero(t, e.RetriedAs, "a default of the configuration is no consent")
	k.until("the pool has taken the worker out and says why", func() bool {
		return k.logged("Removing worker") > 0 && k.logged("port_failure") > 0
	})
	require.NotContains(t, k.scrape(), `troupe_worker_replacements_total{pool="py.lab"}`)
	chain := k.chain(k.submit("py.crash", nil, retries(1)), 2)
	require.Equal(t, messages.Abandoned, chain[0].Status)
	require.Equal(t, "worker_lost", chain[1].RetryReason)
	require.Equal(t, messages.Abandoned, chain[1].Status)
	lines := k.lines("crashes")
	require.Len(t, lines, 3)
	require.ElementsMatch(t, lines, []string{e.ID.String(), chain[0].ID.String(), chain[1].ID.String()}, "no id starts twice")
}

func TestIdempotentWorkIsPlacedAgainUpToThePoisonLimit(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "", map[string]string{"crash": "idempotent: true\nmax_retries: 3\n", "count": ""}))
	e := k.run("py.crash", nil)
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodePoisoned, e.Error.Code)
	require.EqualValues(t, 3, e.Attempt)
	require.Zero(t, e.RetriedAs)
	require.Len(t, k.lines("crashes"), 3)
	require.Len(t, k.events(e.ID)["rescue"], 2)
}

func TestAPanickingHandlerCostsItsWorkerOnly(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) {
		handle(map[string]actors.Handler{
			"panic": func(context.Context, *actors.Task) (any, error) { panic("boom") }, "noop": noop,
		})(c)
		c.Workers[messages.RuntimeGo] = 1
	}, goPack(t, map[string]string{"panic": "", "noop": ""}))
	before := k.ready("go", 0, 0)
	e := k.run("t.panic", nil)
	require.Equal(t, messages.Abandoned, e.Status)
	require.Contains(t, e.Error.Message, "boom")
	k.ready("go", 0, before.Generation)
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
}

func TestResultsAndOutputAreBounded(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) { c.OutputMax = 1000 }, pythonPack(t, "", map[string]string{"large": "", "write": "", "count": ""}))
	e := k.run("py.large", object{"bytes": messages.ResultMax + 1})
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodeResultTooLarge, e.Error.Code)
	e = k.run("py.large", object{"bytes": messages.ResultMax - 2})
	require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
	e = k.run("py.write", object{"bytes": 5000})
	require.Equal(t, messages.Completed, e.Status)
	out, err := k.Output(t.Context(), e.ID)
	require.NoError(t, err)
	require.True(t, out.StdoutCut, "a mark says that more came")
	require.LessOrEqual(t, len(out.Stdout), 1100)
	require.False(t, out.ErrCut)
	require.Equal(t, "trouble\n", string(out.Stderr))
	require.EqualValues(t, 1, k.worker("py.lab", 0).Generation, "the worker stays")
}

func TestCloseReplacesTheWorkerAfterItsResult(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "", map[string]string{"close": "", "sleep": ""}))
	before := k.ready("py.lab", 0, 0)
	first := result[counted](t, k.run("py.close", nil))
	require.Equal(t, before.Pid, first.Pid)
	k.ready("py.lab", 0, before.Generation)
	second := result[counted](t, k.run("py.sleep", object{"seconds": 0}))
	require.NotEqual(t, first.Pid, second.Pid)
	events, err := k.Worker(t.Context(), before.ID)
	require.NoError(t, err)
	require.NotEmpty(t, events.History)
	require.Contains(t, fmt.Sprint(k.log), "reason=closed_by_client")
}
