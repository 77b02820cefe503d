package node_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
)

func TestRetriesAreAChainWithDelaysAndReasons(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"again": tryAgain}), goPack(t, map[string]string{
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
		require.Equal(t, "exception", e.RetryReason, "the reason is the class, beside the code")
		require.Equal(t, "exception", before.Error.Class)
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
	no, yes := false, true
	failures := map[string]struct {
		err   error
		rules string // under retry, beside the delays
		class string
		why   string // none follows; empty: one does
	}{
		"text":      {errors.New("dial tcp: connection refused"), "", "connection_refused", ""},
		"plain":     {errors.New("division by zero"), "", "exception", ""},
		"http":      {errors.New("HTTP 503 service unavailable"), "", "exception", ""},
		"negated":   {errors.New("this is not temporary"), "", "exception", ""},
		"old":       {errors.New("division by zero"), ", unclassified: final", "exception", "unclassified"},
		"oldnot":    {errors.New("this is not temporary"), ", unclassified: final", "exception", "unclassified"},
		"oldtext":   {errors.New("a temporary problem"), ", unclassified: final", "transient_error", ""},
		"refused":   {&messages.Error{Code: "mine", Message: "connection refused", Retriable: &no}, "", "connection_refused", "final_by_worker"},
		"wanted":    {&messages.Error{Code: "mine", Message: "boo", Retriable: &yes}, ", unclassified: final", "exception", ""},
		"final":     {&messages.Error{Code: messages.CodePermission, Message: "permission denied"}, "", "permission_denied", "not_retriable"},
		"never":     {&messages.Error{Code: "mine", Message: "boo"}, ", never_on: [mine]", "exception", "never_on"},
		"ofwrapped": {fmt.Errorf("it: %w", &net.OpError{Op: "read", Err: &fs.PathError{Op: "open", Path: "x", Err: fs.ErrExist}}), ", never_on: [fs.PathError]", "exception", "never_on"},
		"neverof":   {&fs.PathError{Op: "open", Path: "x", Err: fs.ErrExist}, ", never_on: [fs.PathError]", "exception", "never_on"},
		"only":      {&messages.Error{Code: "mine", Message: "boo"}, ", on: [mine]", "exception", ""},
		"others":    {errors.New("boo"), ", on: [mine, timeout]", "exception", "not_in_on"},
		"oneclass":  {errors.New("request timed out"), ", on: [timeout]", "timeout", ""},
	}
	handlers, actions := map[string]messages.Handler{}, map[string]string{}
	for name, f := range failures {
		handlers[name] = func(context.Context, *messages.Task) (any, error) { return nil, f.err }
		actions[name] = "max_retries: 1\nretry: {base: 1h, max: 1h" + f.rules + "}\n"
	}
	k := lab(t, handle(handlers), goPack(t, actions))
	for name, f := range failures {
		e := k.run("t."+name, nil)
		require.Equal(t, messages.Failed, e.Status)
		require.Equal(t, f.class, e.Error.Class, name)
		require.Equal(t, f.why == "", !e.RetriedAs.IsZero(), name)
		answer := k.RetryAnswer(t.Context(), &e)
		require.Equal(t, f.why, answer.WhyNot, name)
		require.Equal(t, e.RetriedAs, answer.As, name)
		why, err := k.Why(t.Context(), e.ID)
		require.NoError(t, err)
		require.Equal(t, answer, *why.Retry)
		require.Contains(t, why.Message, answer.Message)
		if f.why == "" {
			next := k.get(e.RetriedAs)
			require.Equal(t, f.class, next.RetryReason, name)
			require.Equal(t, next.RunAt, answer.At)
			require.Contains(t, answer.Message, next.ID.String())
			require.Contains(t, answer.Message, "due at "+next.RunAt.Format("2006-01-02T15"))
		}
	}
	require.Contains(t, k.scrape(), `troupe_retries_total{code="action_error",pool="go",reason="connection_refused"} 1`)
}

// TestAnAnswerAboutRetriesIsAlwaysThere: before the end, and after it where nobody asked for retries.
func TestAnAnswerAboutRetriesIsAlwaysThere(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, handle(map[string]messages.Handler{"block": block.run, "fail": func(context.Context, *messages.Task) (any, error) {
		return nil, errors.New("it broke")
	}}), goPack(t, map[string]string{"block": "", "fail": ""}))
	e := k.run("t.fail", nil)
	answer := k.RetryAnswer(t.Context(), &e)
	require.Equal(t, "max_retries_reached", answer.WhyNot)
	require.Contains(t, answer.Message, "max_retries is 0")
	running := k.submit("t.block", nil, retries(2))
	block.next(t)
	e = k.get(running)
	answer = k.RetryAnswer(t.Context(), &e)
	require.Equal(t, 2, answer.Left)
	require.Contains(t, answer.Message, "2 of 2 retries are left")
	close(block.open)
}

func TestManualRetry(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	fail.Store(true)
	block := newGate()
	k := lab(t, handle(map[string]messages.Handler{"work": func(context.Context, *messages.Task) (any, error) {
		if fail.Load() {
			return nil, errors.New("it broke")
		}
		return "done", nil
	}, "block": block.run}), goPack(t, map[string]string{"work": "", "block": ""}))
	first := k.run("t.work", object{"a": 1})
	require.Equal(t, messages.Failed, first.Status)
	fail.Store(false)
	made, err := k.Retry(t.Context(), first.ID, "", "ann")
	require.NoError(t, err)
	require.False(t, made.Existing)
	again := made.Execution
	require.Equal(t, "manual_retry", again.RetryReason)
	require.Equal(t, first.ID, again.Original)
	require.Equal(t, 1, again.RetryCount)
	require.Equal(t, messages.Completed, k.await(again.ID).Status)
	require.Len(t, k.chain(first.ID, 2), 2)
	running := k.submit("t.block", nil)
	block.next(t)
	for _, id := range []messages.ExecutionID{again.ID, running} {
		_, err = k.Retry(t.Context(), id, "", "ann")
		require.Equal(t, http.StatusConflict, api.StatusOf(refused(t, err)))
	}
	close(block.open)
}

// TestAnExecutionHasOneRetry: whoever asks again, by hand or for its dead letter, gets the first.
func TestAnExecutionHasOneRetry(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"fail": func(context.Context, *messages.Task) (any, error) {
		return nil, errors.New("it broke")
	}}),
		goPack(t, map[string]string{"fail": ""}))
	e := k.run("t.fail", nil)
	first, err := k.Retry(t.Context(), e.ID, "mine", "ann")
	require.NoError(t, err)
	for _, key := range []string{"", "mine"} {
		again, err := k.Retry(t.Context(), e.ID, key, "ann")
		require.NoError(t, err)
		require.True(t, again.Existing)
		require.Equal(t, first.Execution.ID, again.Execution.ID)
	}
	_, err = k.Retry(t.Context(), e.ID, "another", "ann")
	p := refused(t, err)
	require.Equal(t, http.StatusConflict, api.StatusOf(p))
	require.Equal(t, messages.CodeKeyConflict, p.Code)
	require.Contains(t, p.Message, first.Execution.ID.String())
	require.Len(t, k.chain(e.ID, 2), 2)

	other := k.run("t.fail", nil)
	_, err = k.Retry(t.Context(), other.ID, "mine", "ann")
	require.ErrorIs(t, err, store.ErrConflict, "the key is another execution's")
	require.Zero(t, k.get(other.ID).RetriedAs)
	_, err = k.Retry(t.Context(), e.ID, "mine", "bob")
	require.Equal(t, messages.CodeKeyConflict, refused(t, err).Code, "the retry that is there has ann's key, not bob's")
	_, err = k.Retry(t.Context(), other.ID, "mine", "bob")
	require.NoError(t, err, "and bob's is free")
}

func TestExit75MeansTryAgain(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, shellPack(t, map[string]string{
		"later": `echo x >> tries; [ "$(wc -l < tries)" -ge 3 ] && exit 0; echo not yet >&2; exit 75`,
		"never": `echo broken >&2; exit 3`,
	}, "max_retries: 5\nretry: {base: 10ms, max: 50ms, never_on: [3]}\n"))
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
	require.Equal(t, "never_on", e.Error.NoRetry)
}

// TestPlainFailuresAreRetried: with max_retries above 0 a program's exit 1 and a Python exception are retried until one ends well.
func TestPlainFailuresAreRetried(t *testing.T) {
	t.Parallel()
	const twice = "max_retries: 2\nretry: {base: 10ms, max: 20ms}\n"
	k := lab(t, nil, shellPack(t, map[string]string{"one": `[ -e been ] && exit 0; touch been; exit 1`}, twice),
		pythonPack(t, "", map[string]string{"lookup": twice}))
	for ref, want := range map[string]struct {
		code   messages.Code
		reason string
		said   string
	}{
		"sh.one":    {messages.CodeExitStatus, "exit_status", ""},
		"py.lookup": {"action_error", "exception", "KeyError"},
	} {
		chain := k.chain(k.submit(ref, nil), 2)
		require.Equal(t, messages.Failed, chain[0].Status, ref)
		require.Equal(t, want.code, chain[0].Error.Code, ref)
		require.Contains(t, chain[0].Error.Message, want.said, ref)
		require.Equal(t, want.reason, chain[1].RetryReason, ref)
		require.Equal(t, messages.Completed, chain[1].Status, ref)
	}
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

// TestThePoisonLimitCountsOverTheChain: an action that ends its process is run by three workers in all, however many retries
// it may have.
func TestThePoisonLimitCountsOverTheChain(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "", map[string]string{
		"crash": "max_retries: 8\nretry: {base: 10ms, max: 20ms}\n", "count": "",
	}))
	chain := k.chain(k.submit("py.crash", nil), 3)
	for i, e := range chain {
		require.Equal(t, i+1, e.CrashCount, "the last crash counts too")
	}
	require.Equal(t, messages.Abandoned, chain[0].Status)
	require.Equal(t, messages.Abandoned, chain[1].Status)
	last := chain[2]
	require.Equal(t, messages.Failed, last.Status)
	require.Equal(t, messages.CodePoisoned, last.Error.Code)
	require.Contains(t, last.Error.Exit, "3", "how its process ended is kept")
	require.Zero(t, last.RetriedAs)
	require.Len(t, k.lines("crashes"), 3)
}

func TestAPanickingHandlerCostsItsWorkerOnly(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{
			"panic": func(context.Context, *messages.Task) (any, error) { panic("boom") }, "noop": noop,
		})(c)
		c.Workers["go"] = 1
	}, goPack(t, map[string]string{"panic": "", "noop": ""}))
	before := k.ready("go", 0, 0)
	e := k.run("t.panic", nil)
	require.Equal(t, messages.Abandoned, e.Status)
	require.Contains(t, e.Error.Message, "boom")
	require.Contains(t, e.Error.Stderr, "TestAPanickingHandlerCostsItsWorkerOnly", "the stack of the panic is in the error")
	require.Positive(t, k.logged("handler panicked"))
	require.Contains(t, fmt.Sprint(k.log), "retries_test.go:", "and in the log")
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
