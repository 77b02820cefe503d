package actors

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
)

const allCapabilities = `{"protocol":1,"capabilities":{"ping_while_busy":true,"cancel":true,"sessions":true,"snapshot":true,"health_check":true}}`

// company is a process runner with its program.
type company struct {
	*longLivedRunner
	in  *inbox
	cfg *WorkerConfig
	l   *launcher
}

func newCompany(t *testing.T, l *launcher) *company {
	t.Helper()
	in, cfg := &inbox{}, backstage()
	r := LongLivedRunner(&Outfit{Launcher: l}, &Program{Name: "python process", Argv: []string{"python3"}})(cfg, "w", 1)
	r.Begin(in.post)
	return &company{r.(*longLivedRunner), in, cfg, l}
}

// greeted is a company whose program has answered hello.
func greeted(t *testing.T, capabilities string) (*company, *puppet) {
	t.Helper()
	c := newCompany(t, &launcher{})
	p := c.l.puppet(t)
	p.sink(process.Reply{ID: p.asked(t, "hello", 1).id, Result: json.RawMessage(capabilities)})
	require.NoError(t, next[*begun](t, c.in, 1).err)
	return c, p
}

func TestProcessHello(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply process.Reply
		err   string
	}{
		"fine":     {process.Reply{Result: json.RawMessage(allCapabilities)}, ""},
		"bare":     {process.Reply{Result: json.RawMessage(`{"protocol":1}`)}, ""},
		"newer":    {process.Reply{Result: json.RawMessage(`{"protocol":2}`)}, "speaks protocol 2"},
		"nonsense": {process.Reply{Result: json.RawMessage(`"hi"`)}, "something else"},
		"error":    {process.Reply{Err: &messages.Error{Message: "no module named x"}}, "no module named x"},
	} {
		run := newCompany(t, &launcher{})
		p := run.l.puppet(t)
		id := p.asked(t, "hello", 1).id
		c.reply.ID = id + 7
		strays := 0
		run.cfg.UnknownReply = func(string) { strays++ }
		p.sink(c.reply) // an answer to nothing
		require.Equal(t, 1, strays, "it is counted")
		require.Empty(t, posted[*begun](run.in), name)
		c.reply.ID = id
		p.sink(c.reply)
		p.sink(c.reply) // twice
		err := next[*begun](t, run.in, 1).err
		require.Len(t, posted[*begun](run.in), 1, name)
		if c.err == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.err, name)
		}
	}
}

func TestProcessThatDoesNotStart(t *testing.T) {
	t.Parallel()
	c := newCompany(t, &launcher{refuse: errDeaf})
	require.EqualError(t, next[*begun](t, c.in, 1).err, "failed to start python process: deaf")
	c.Run(aRun(nil))
	require.True(t, next[*ended](t, c.in, 1).unstarted)
}

// A program may speak, and even end, before its start has returned.
func TestProcessEventsBeforeStartReturns(t *testing.T) {
	t.Parallel()
	c := newCompany(t, &launcher{begin: func(p *puppet) {
		p.tail = "no such file"
		p.sink(process.Log{Level: "info", Message: "hi"})
		p.exits(2)
	}})
	end := next[*gone](t, c.in, 1)
	require.Equal(t, 2, end.exit.Code)
	require.Equal(t, "no such file", end.stderr)
	require.Equal(t, "no such file", c.Stderr())
	require.Zero(t, c.Pid())
	require.Zero(t, end.running)
	require.ErrorContains(t, next[*begun](t, c.in, 1).err, "not running")
}

// One that is stopped while it is being started must not live on.
func TestProcessIsKilledBeforeStartReturns(t *testing.T) {
	t.Parallel()
	starting, goOn := make(chan struct{}), make(chan struct{})
	c := newCompany(t, &launcher{begin: func(*puppet) { close(starting); <-goOn }})
	<-starting
	require.Empty(t, c.Stderr())
	c.Step(process.StepKill, nil)
	close(goOn)
	p := c.l.puppet(t)
	soon(t, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.killed == 1 }, "it must be killed")
	require.Empty(t, p.requests)
}

func TestProcessRun(t *testing.T) {
	t.Parallel()
	c, p := greeted(t, allCapabilities)
	require.Equal(t, Traits{LongLived: true, Probes: true, Cancels: true, Snapshots: true}, c.Traits())
	require.Equal(t, 99, c.Pid())
	r := aRun(func(e *messages.Execution, _ *messages.Action) { e.StallTimeout = time.Minute })
	c.Run(r)
	id := p.asked(t, "execute", 1).id
	p.sink(process.Progress{ID: id, Fraction: 0.5})
	p.sink(process.Progress{ID: id + 1, Fraction: 0.7}) // of no run of ours
	p.sink(process.Chunk{ID: id, Data: json.RawMessage(`1`)})
	p.sink(process.Log{ID: id, Message: "m"})
	p.sink(process.Log{ID: 0, Message: "outside"})
	p.sink(process.Wrote{Stderr: true, Data: []byte("w")})
	require.Len(t, posted[*sign](c.in), 3)
	c.cfg.Feeds.mu.Lock()
	require.Len(t, c.cfg.Feeds.feeds[r.Execution.ID].events, 4)
	c.cfg.Feeds.mu.Unlock()
	p.set(func() { p.out = messages.Output{Stderr: []byte("w")} })
	p.sink(process.Reply{ID: id, Result: json.RawMessage(`{"a":1}`), Close: true})
	p.sink(process.Reply{ID: id, Result: json.RawMessage(`{"a":2}`)})
	end := next[*ended](t, c.in, 1)
	require.JSONEq(t, `{"a":1}`, string(end.outcome.Result))
	require.True(t, end.close)
	require.Equal(t, "w", string(end.output.Stderr))
	p.sink(process.Progress{ID: id})
	require.Len(t, posted[*ended](c.in), 1)
	require.Len(t, posted[*sign](c.in), 3)
}

// Answers come in any order; each finds its request.
func TestProcessAnswersOutOfOrder(t *testing.T) {
	t.Parallel()
	c, p := greeted(t, allCapabilities)
	r := aRun(nil)
	c.Run(r)
	c.Probe(5, true)
	c.Step(process.StepCancel, r)
	c.Probe(6, true)
	execute, first, second := p.asked(t, "execute", 1).id, p.asked(t, "ping", 1).id, p.asked(t, "ping", 2).id
	cancel := p.asked(t, "cancel", 1)
	require.Equal(t, map[string]uint64{"request": execute}, cancel.args)
	p.sink(process.Reply{ID: second})
	p.sink(process.Reply{ID: execute, Err: &messages.Error{Code: messages.CodeCancelled, Message: "cancelled"}})
	p.sink(process.Reply{ID: 4711})
	p.sink(process.Reply{ID: cancel.id})
	p.sink(process.Reply{ID: first, Err: &messages.Error{Message: "ill"}})
	answers := posted[*probed](c.in)
	require.Equal(t, uint64(6), answers[0].id)
	require.NoError(t, answers[0].err)
	require.Equal(t, uint64(5), answers[1].id)
	require.ErrorContains(t, answers[1].err, "health_check_failed: ill")
	require.Equal(t, messages.Code("action.cancelled"), next[*ended](t, c.in, 1).outcome.Error.Code, "whether it was cancelled is the worker actor's to judge")
	require.Empty(t, c.pending)
}

// A chunk that cannot be kept fails the run at its end: until then the program is busy with it.
func TestProcessSendsAChunkThatCannotBeKept(t *testing.T) {
	t.Parallel()
	c, p := greeted(t, allCapabilities)
	for _, reply := range []process.Reply{{Result: json.RawMessage(`1`)}, {Err: &messages.Error{Code: "mine"}}} {
		r := aRun(nil)
		c.Run(r)
		reply.ID = p.asked(t, "execute", len(posted[*ended](c.in))+1).id
		p.sink(process.Chunk{ID: reply.ID, Err: messages.NotJSON("chunk", messages.CheckJSON([]byte(`[NaN]`)))})
		p.sink(process.Chunk{ID: reply.ID, Data: json.RawMessage(`1`)})
		p.sink(process.Chunk{ID: 4711, Err: &messages.Error{Code: "of another"}})
		before := len(posted[*ended](c.in))
		p.sink(reply)
		end := next[*ended](t, c.in, before+1)
		require.Equal(t, messages.Failed, end.outcome.Status)
		want := messages.CodeResultNotJSON
		if reply.Err != nil {
			want = "mine"
		}
		require.Equal(t, want, end.outcome.Error.Code)
	}
	r := aRun(nil)
	c.Run(r)
	p.sink(process.Reply{ID: p.asked(t, "execute", 3).id, Result: json.RawMessage(`1`)})
	require.Equal(t, messages.Completed, next[*ended](t, c.in, 3).outcome.Status, "the next run is another")
}

// Values of parameters that an action keeps secret are masked, also those of a run that is over: its threads may go on.
func TestProcessMasksSecretParameters(t *testing.T) {
	t.Parallel()
	c, p := greeted(t, allCapabilities)
	for n, parameters := range []string{`{"key":"hunter2-hunter2"}`, `{}`, `{"key":{"a":"another-secret"},"open":"hello-hello"}`} {
		c.Run(aRun(func(e *messages.Execution, a *messages.Action) {
			a.Secrets, e.Parameters = []string{"key"}, json.RawMessage(parameters)
		}))
		p.sink(process.Reply{ID: p.asked(t, "execute", n+1).id, Result: json.RawMessage(`1`)})
		p.set(func() { require.Equal(t, "[redacted]", p.masks.Text("hunter2-hunter2")) })
	}
	p.set(func() { require.Equal(t, "[redacted] hello-hello", p.masks.Text("another-secret hello-hello")) })
}

// What a program says of its failure is no word of Troupe's own.
func TestProcessSaysACodeOfTroupes(t *testing.T) {
	t.Parallel()
	for said, want := range map[messages.Code]messages.Code{
		messages.CodePoisoned: "action.poisoned", messages.CodeWorkerLost: "action.worker_lost", messages.CodeRateLimited: messages.CodeRateLimited,
		"disk full": messages.CodeActionError,
	} {
		c, p := greeted(t, allCapabilities)
		c.Run(aRun(nil))
		p.sink(process.Reply{ID: p.asked(t, "execute", 1).id, Err: &messages.Error{Code: said, Message: "m", Class: "poisoned", NoRetry: "n", FailedBy: "rescue"}})
		end := next[*ended](t, c.in, 1)
		require.Equal(t, messages.Failed, end.outcome.Status)
		require.Equal(t, want, end.outcome.Error.Code)
		require.Empty(t, end.outcome.Error.Class+end.outcome.Error.NoRetry+end.outcome.Error.FailedBy, "they are not a program's to say")
		require.False(t, end.outcome.Crash())
	}
}

func TestProcessExits(t *testing.T) {
	t.Parallel()
	restore := func(e *messages.Execution, _ *messages.Action) { e.Session, e.SessionLost = "s", true }
	for name, c := range map[string]struct {
		before  func(*testing.T, *company, *puppet, *Run)
		running bool
	}{
		"idle":    {func(*testing.T, *company, *puppet, *Run) {}, false},
		"running": {func(_ *testing.T, c *company, _ *puppet, r *Run) { c.Run(r) }, true},
		"broken": {func(_ *testing.T, c *company, p *puppet, r *Run) {
			c.Run(r)
			p.sink(process.Broken{Reason: "no frame"})
		}, true},
		"restoring": {func(t *testing.T, c *company, p *puppet, r *Run) {
			r.Restore = json.RawMessage(`{}`)
			c.Run(r)
			p.asked(t, "restore", 1)
		}, false},
		"ended": {func(t *testing.T, c *company, p *puppet, r *Run) {
			c.Run(r)
			p.sink(process.Reply{ID: p.asked(t, "execute", 1).id, Result: json.RawMessage(`1`)})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, p := greeted(t, allCapabilities)
			r := aRun(restore)
			c.before(t, run, p, r)
			p.exits(1)
			end := next[*gone](t, run.in, 1)
			require.Equal(t, c.running, end.running == r.Placement())
			require.Equal(t, name == "broken", end.broken != "")
			require.Zero(t, run.Pid())
			late := aRun(nil)
			run.Run(late)
			posts := posted[*ended](run.in)
			require.True(t, posts[len(posts)-1].unstarted)
			require.Equal(t, late.Placement(), posts[len(posts)-1].placement)
			run.Probe(1, false)
			require.Error(t, next[*probed](t, run.in, 1).err)
			run.EndSession("s", 1)
			require.False(t, run.Snapshot("s", 1, 0))
		})
	}
}

func TestProcessRestoresASession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply  process.Reply
		behind int64
		lost   bool
		told   int64
	}{
		"taken":            {process.Reply{}, 0, false, 0},
		"refused":          {process.Reply{Err: &messages.Error{Message: "no"}}, 0, true, 0},
		"old":              {process.Reply{}, 3, true, 3},
		"refused, and old": {process.Reply{Err: &messages.Error{Message: "no"}}, 3, true, 0},
	} {
		run, p := greeted(t, allCapabilities)
		r := aRun(func(e *messages.Execution, _ *messages.Action) {
			e.Session, e.SessionLost, e.SessionEpoch = "s", true, 2
		})
		r.Restore, r.Behind = json.RawMessage(`{"n":1}`), c.behind
		run.Run(r)
		c.reply.ID = p.asked(t, "restore", 1).id
		p.sink(c.reply)
		execute := p.asked(t, "execute", 1)
		require.Equal(t, c.lost, execute.args.(*executeArgs).Session.Lost, name)
		require.Equal(t, c.told, execute.args.(*executeArgs).Session.Behind, name)
		p.sink(process.Reply{ID: execute.id, Result: json.RawMessage(`1`)})
		end := next[*ended](t, run.in, 1)
		require.Equal(t, []bool{!c.lost, c.lost, false}, []bool{end.restored, end.lost, end.neverRan}, name)
	}
}

// A run that is stopped while its session is given back its state ends without its code.
func TestProcessIsNotGivenARunThatIsStoppedBefore(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]process.Reply{"taken": {}, "refused": {Err: &messages.Error{Message: "no"}}} {
		run, p := greeted(t, allCapabilities)
		r := aRun(func(e *messages.Execution, _ *messages.Action) {
			e.Session, e.SessionLost, e.SessionEpoch = "s", true, 2
		})
		r.Restore, r.stop, r.stopText = json.RawMessage(`{}`), stopCancel, "no longer wanted"
		run.Run(r)
		reply.ID = p.asked(t, "restore", 1).id
		run.Step(process.StepCancel, r)
		p.sink(reply)
		end := next[*ended](t, run.in, 1)
		require.Equal(t, []bool{true, false, false}, []bool{end.neverRan, end.restored, end.lost}, name)
		require.Equal(t, "no longer wanted", end.outcome.Error.Message, name)
		next := aRun(nil)
		run.Run(next)
		require.Equal(t, next.Execution.ID, p.asked(t, "execute", 1).args.(*executeArgs).Execution, "of the run before it has not heard")
		p.set(func() {
			require.False(t, slices.ContainsFunc(p.requests, func(r request) bool { return r.command == "cancel" }), name)
		})
	}
}

func TestProcessThatDoesNotTakeItsExecute(t *testing.T) {
	t.Parallel()
	c, p := greeted(t, allCapabilities)
	p.set(func() { p.deaf = process.ErrQueueFull })
	r := aRun(nil)
	c.Run(r)
	end := next[*ended](t, c.in, 1)
	require.True(t, end.unstarted)
	require.Contains(t, end.crashed, "execute not taken")
	c.Step(process.StepShutdown, nil)
	require.True(t, p.closed, "one that takes no shutdown gets the end of its requests")
	c.Step(process.StepTerminate, nil)
	c.Step(process.StepKill, nil)
	require.Equal(t, 1, p.terminated)
	require.Equal(t, 1, p.killed)
	c.Probe(3, false)
	require.ErrorIs(t, next[*probed](t, c.in, 1).err, process.ErrQueueFull)
}

func TestProcessProbes(t *testing.T) {
	t.Parallel()
	c, p := greeted(t, `{"protocol":1,"capabilities":{}}`)
	c.Probe(1, false)
	p.sink(process.Reply{ID: p.asked(t, "health_check", 1).id})
	require.NoError(t, next[*probed](t, c.in, 1).err)
	c.Probe(2, true)
	require.ErrorIs(t, next[*probed](t, c.in, 2).err, errCannotAnswer)
	p.set(func() { p.vitals = 'T' })
	c.Probe(3, true)
	require.ErrorContains(t, next[*probed](t, c.in, 3).err, "state T")
	c.EndSession("s", 1) // it keeps none
	require.False(t, c.Traits().Snapshots)
	for range pendingMax + 10 {
		_, err := c.ask("ping", pendingRequest{}, nil)
		if err != nil {
			require.ErrorIs(t, err, errTooManyPending)
		}
	}
	require.Len(t, c.pending, pendingMax)
}

// A program that talks before the node knows it is heard to a bound; its end is heard in any case.
func TestProcessThatTalksTooEarly(t *testing.T) {
	t.Parallel()
	p := &longLivedRunner{}
	for range deferredMax + 5 {
		p.heard(process.Log{Message: "hello?"})
	}
	p.heard(process.Broken{Reason: "garbage"})
	p.heard(process.Exited{})
	require.Len(t, p.deferred, deferredMax+2)
	require.Equal(t, 5, p.dropped)
	require.IsType(t, process.Exited{}, p.deferred[deferredMax+1])
}

func TestProcessSnapshot(t *testing.T) {
	t.Parallel()
	c, p := greeted(t, allCapabilities)
	require.True(t, c.Snapshot("s", 4, 0))
	require.True(t, c.Snapshot("t", 5, 9))
	p.sink(process.Reply{ID: p.asked(t, "snapshot", 2).id, Result: json.RawMessage(`{}`)})
	p.sink(process.Reply{ID: p.asked(t, "snapshot", 1).id, Result: json.RawMessage(`{"state":{"n":1}}`)})
	got := posted[*snapshot](c.in)
	require.Equal(t, "t", got[0].session)
	require.Equal(t, uint64(9), got[0].id, "the answer says who asked")
	require.ErrorContains(t, got[0].err, "without a state")
	require.Equal(t, int64(4), got[1].epoch)
	require.JSONEq(t, `{"n":1}`, string(got[1].state))
}

// What a run's error says of standard error is that run's alone: nothing of the runs before, which may be another session's.
func TestProcessErrorsHaveTheirOwnRunsStderr(t *testing.T) {
	t.Parallel()
	c, p := greeted(t, allCapabilities)
	fails := func(n int, stderr string) *messages.Error {
		c.Run(aRun(nil))
		id := p.asked(t, "execute", n).id
		p.set(func() { p.out, p.tail = messages.Output{Stderr: []byte(stderr)}, p.tail+stderr })
		p.sink(process.Reply{ID: id, Err: &messages.Error{Code: messages.CodeActionError}})
		return next[*ended](t, c.in, n).outcome.Error
	}
	require.Equal(t, "secret of one\n", fails(1, "secret of one\n").Stderr)
	require.Equal(t, "of two\n", fails(2, "of two\n").Stderr)
	require.Empty(t, fails(3, "").Stderr)
	c.Run(aRun(nil))
	p.asked(t, "execute", 4)
	p.exits(1)
	require.Empty(t, next[*gone](t, c.in, 1).stderr, "nor where the program ends")
}
