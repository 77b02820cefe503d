package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/runtime"
)

func TestShellOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exit   process.Exit
		stdout string
		status messages.Status
		result string
		code   messages.Code
		again  bool
		text   string
	}{
		"JSON":       {exit: process.Exit{Cause: process.CauseExit}, stdout: " {\"a\":1}\n", status: messages.Completed, result: `{"a":1}`},
		"text":       {exit: process.Exit{Cause: process.CauseExit}, stdout: "hi there\n\n", status: messages.Completed, result: `"hi there"`},
		"nothing":    {exit: process.Exit{Cause: process.CauseExit}, status: messages.Completed, result: `""`},
		"no UTF-8":   {exit: process.Exit{Cause: process.CauseExit}, stdout: "a\xff", status: messages.Completed, result: "\"a\uFFFD\""},
		"NaN":        {exit: process.Exit{Cause: process.CauseExit}, stdout: "{\"a\":NaN}\n", status: messages.Completed, result: `"{\"a\":NaN}"`},
		"name twice": {exit: process.Exit{Cause: process.CauseExit}, stdout: `{"a":1,"a":2}`, status: messages.Completed, result: `"{\"a\":1,\"a\":2}"`},
		"digits":     {exit: process.Exit{Cause: process.CauseExit}, stdout: `[9007199254740993,1.0,1e400,-0.0]`, status: messages.Completed, result: `[9007199254740993,1.0,1e400,-0.0]`},
		"exit 3":     {exit: process.Exit{Cause: process.CauseExit, Code: 3}, status: messages.Failed, code: messages.CodeExitStatus, text: "exit status 3"},
		"exit 75":    {exit: process.Exit{Cause: process.CauseExit, Code: 75}, status: messages.Failed, code: messages.CodeExitStatus, again: true},
		"signal":     {exit: process.Exit{Cause: process.CauseSignal, Code: -1, Signal: "segmentation fault"}, status: messages.Failed, code: messages.CodeExitStatus, text: "signal: segmentation fault"},
		"stopped":    {exit: process.Exit{Cause: process.CauseStopped, Code: -1, Signal: "killed"}, status: messages.Failed, code: messages.CodeExitStatus},
		"stopped, 0": {exit: process.Exit{Cause: process.CauseStopped}, status: messages.Failed, code: messages.CodeExitStatus},
		"oom":        {exit: process.Exit{Cause: process.CauseOOM, Code: -1}, status: messages.Failed, code: messages.CodeLimit, text: "oom"},
		"memory":     {exit: process.Exit{Cause: process.CauseMemory, Code: -1}, status: messages.Failed, code: messages.CodeLimit, text: "limit: memory"},
		"cpu":        {exit: process.Exit{Cause: process.CauseCPU, Code: -1}, status: messages.Failed, code: messages.CodeLimit, text: "limit: cpu_time"},
		"guardian":   {exit: process.Exit{Cause: process.CauseGuardian, Code: -1, Lost: true}, status: messages.Abandoned, code: messages.CodeWorkerLost},
		"unknown":    {exit: process.Exit{Cause: process.CauseExit, Code: -1, Lost: true}, status: messages.Failed, code: messages.CodeExitStatus, text: "unknown"},
	} {
		o := commandOutcome(c.exit, messages.Output{Stdout: []byte(c.stdout)}, "tail")
		require.Equal(t, c.status, o.Status, name)
		if c.code == "" {
			require.Equal(t, c.result, string(o.Result), name)
			continue
		}
		require.Equal(t, c.code, o.Error.Code, name)
		require.Equal(t, "tail", o.Error.Stderr, name)
		require.Contains(t, o.Error.Exit, c.text, name)
		require.Equal(t, c.again, o.Error.Retriable != nil && *o.Error.Retriable, name)
	}
}

func TestParameterEnv(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64<<10)
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, `%c"a%d":"\u0000"`, "{,"[min(i, 1)], i)
	}
	many.WriteString("}")
	for parameters, want := range map[string][]string{
		``:                              nil,
		`null`:                          nil,
		`[1]`:                           nil,
		`{"a":"b"}`:                     {"TROUPE_PARAM_A=b"},
		`{"n":1.50,"t":true,"f":false}`: {"TROUPE_PARAM_F=false", "TROUPE_PARAM_N=1.50", "TROUPE_PARAM_T=true"},
		`{"o":{},"l":[],"z":null}`:      {"TROUPE_PARAMS_ON_STDIN=L,O,Z"},
		`{"a b":"1","1a":"2","a=b":"3","ä":"4","_a1":"6","dry-run":true}`: {"TROUPE_PARAM__A1=6", "TROUPE_PARAMS_ON_STDIN=1a,a b,a=b,dry-run,ä"},
		`{"":"5"}`:                                 {"TROUPE_PARAMS_ON_STDIN=*"},
		`{"a,b":1}`:                                {"TROUPE_PARAMS_ON_STDIN=*"},
		`{"a\u0000":1}`:                            {"TROUPE_PARAMS_ON_STDIN=*"},
		`{"s_on_stdin":1}`:                         {"TROUPE_PARAM_S_ON_STDIN=1"},
		`{"a":"x\u0000y"}`:                         {"TROUPE_PARAMS_ON_STDIN=A"},
		`{"a":"line\nbreak; $(rm)"}`:               {"TROUPE_PARAM_A=line\nbreak; $(rm)"},
		`{"name":"low","NAME":"high"}`:             {"TROUPE_PARAM_NAME=high", "TROUPE_PARAMS_ON_STDIN=name"},
		`{"a":"` + long + `"}`:                     {"TROUPE_PARAM_A=" + long},
		`{"a":"` + long + `x","b":"\u0000","c":2}`: {"TROUPE_PARAM_C=2", "TROUPE_PARAMS_ON_STDIN=A,B"},
		many.String():                              {"TROUPE_PARAMS_ON_STDIN=*"},
		`{"` + strings.Repeat("a", 129) + `":"b","c":"d"}`: {"TROUPE_PARAM_C=d", "TROUPE_PARAMS_ON_STDIN=" + strings.Repeat("a", 129)},
		`{"name":[],"NAME":null}`:                          {"TROUPE_PARAMS_ON_STDIN=NAME,name"},
	} {
		require.Equal(t, want, parameterEnv(json.RawMessage(parameters)), "%.60s", parameters)
	}
}

func FuzzParameterEnv(f *testing.F) {
	for _, seed := range []string{`{"a":"b"}`, `{"a":1,"A":2}`, `{"a":"\u0000"}`, `{`, `{"é":1}`, `[]`, `{"a":{"b":1}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, parameters []byte) {
		seen := map[string]bool{}
		for _, entry := range parameterEnv(parameters) {
			name, value, found := strings.Cut(entry, "=")
			require.True(t, found)
			require.Regexp(t, `^TROUPE_PARAM_[A-Z_][A-Z0-9_]*$|^TROUPE_PARAMS_ON_STDIN$`, name)
			require.NotContains(t, value, "\x00")
			require.False(t, seen[name], "a variable is set once")
			seen[name] = true
		}
	})
}

func newOneShot(t *testing.T, l *launcher) (Runner, *inbox, *WorkerConfig) {
	t.Helper()
	in, cfg := &inbox{}, backstage()
	s := OneShotRunner(&Outfit{Launcher: l, Env: []string{"PATH=/bin"}}, func(a *messages.Action) runtime.Program {
		return runtime.Program{Argv: runtime.Argv(a.Root, a.Command)}
	})(cfg, "w", 1)
	s.Begin(in.post)
	require.NoError(t, next[*begun](t, in, 1).err)
	return s, in, cfg
}

func TestShellRunsACommand(t *testing.T) {
	t.Parallel()
	l := &launcher{}
	s, in, cfg := newOneShot(t, l)
	r := aRun(func(e *messages.Execution, a *messages.Action) {
		e.Parameters, e.StallTimeout, a.Root, a.Command = json.RawMessage(`{"x":"1"}`), time.Minute, "/pack", []string{"bin/run", "-a"}
	})
	s.Run(r)
	p := l.puppet(t)
	require.Equal(t, []string{"/pack/bin/run", "-a"}, p.spec.Argv)
	require.Equal(t, "/pack", p.spec.Dir)
	require.JSONEq(t, `{"x":"1"}`, string(p.spec.Stdin))
	require.Contains(t, p.spec.Env, "TROUPE_PARAM_X=1")
	require.Contains(t, p.spec.Env, "TROUPE_EXECUTION="+r.Execution.ID.String())
	require.Contains(t, p.spec.Env, "PATH=/bin")
	p.set(func() { p.out = messages.Output{Stdout: []byte("5")} })
	p.sink(process.Wrote{Data: []byte("5")})
	next[*sign](t, in, 1)
	require.Equal(t, "5", string(cfg.Feeds.Output(r.Execution.ID).Stdout))
	p.exits(0)
	end := next[*ended](t, in, 1)
	require.Equal(t, `5`, string(end.outcome.Result))
	require.Equal(t, "5", string(end.output.Stdout))
}

func TestShellEndsBeforeItsStartReturns(t *testing.T) {
	t.Parallel()
	s, in, _ := newOneShot(t, &launcher{begin: func(p *puppet) { p.exits(2) }})
	s.Run(aRun(nil))
	require.Equal(t, "exit status 2", next[*ended](t, in, 1).outcome.Error.Exit)
}

func TestShellIsStoppedBeforeItsStartReturns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		steps        []process.Step
		term, killed int
	}{
		{[]process.Step{process.StepTerminate}, 1, 0},
		{[]process.Step{process.StepTerminate, process.StepKill}, 0, 1},
		{[]process.Step{process.StepKill, process.StepTerminate}, 0, 1},
		{nil, 0, 0},
	} {
		starting, goOn := make(chan struct{}), make(chan struct{})
		l := &launcher{begin: func(*puppet) { close(starting); <-goOn }}
		s, in, _ := newOneShot(t, l)
		r := aRun(nil)
		s.Run(r)
		<-starting
		for _, step := range c.steps {
			s.Step(step, r)
		}
		s.Step(process.StepKill, nil) // means nothing without a run
		close(goOn)
		p := l.puppet(t)
		soon(t, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.terminated == c.term && p.killed == c.killed
		}, "the step must be taken when the process is there")
		p.exits(0)
		next[*ended](t, in, 1)
	}
}

func TestShellThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		status  messages.Status
		crashed bool
	}{
		"no such program": {fmt.Errorf("start cmd: not found"), messages.Failed, false},
		"guardian":        {fmt.Errorf("start cmd: %w: died", process.ErrGuardian), messages.Abandoned, true},
		"late":            {fmt.Errorf("start cmd: %w", context.DeadlineExceeded), messages.Abandoned, true},
	} {
		s, in, _ := newOneShot(t, &launcher{refuse: c.err})
		s.Run(aRun(nil))
		end := next[*ended](t, in, 1)
		require.Equal(t, c.status, end.outcome.Status, name)
		require.Equal(t, c.crashed, end.crashed != "", name)
		require.Contains(t, end.outcome.Error.Message, c.err.Error(), name)
	}
}

func TestShellResultTooLarge(t *testing.T) {
	t.Parallel()
	s, in, _ := newOneShot(t, &launcher{})
	l := s.(*oneShotRunner).outfit.Launcher.(*launcher)
	s.(*oneShotRunner).outfit.Output = 10
	for n, c := range []struct {
		out  messages.Output
		code int
		want messages.Code
	}{
		{out: messages.Output{Stdout: []byte(`"longer than what is kept of stdout"`)}},
		{out: messages.Output{Stdout: []byte(`"cut`), StdoutCut: true}, want: messages.CodeResultTooLarge},
		{out: messages.Output{Stdout: bytes.Repeat([]byte("x"), messages.ResultMax+1)}, want: messages.CodeResultTooLarge},
		{out: messages.Output{Stdout: bytes.Repeat([]byte("\x01"), messages.ResultMax/5)}, want: messages.CodeResultTooLarge},
		{out: messages.Output{Stdout: []byte("cut"), StdoutCut: true}, code: 3, want: messages.CodeExitStatus},
	} {
		s.Run(aRun(nil))
		p := l.puppetAt(t, n)
		require.Greater(t, p.spec.StdoutMax, messages.ResultMax, "one byte more tells that it is too large")
		p.set(func() { p.out = c.out })
		p.exits(c.code)
		end := next[*ended](t, in, n+1)
		require.LessOrEqual(t, len(end.output.Stdout), 10)
		require.Equal(t, len(c.out.Stdout) > 10 || c.out.StdoutCut, end.output.StdoutCut)
		if c.want == "" {
			require.Equal(t, string(c.out.Stdout), string(end.outcome.Result), "the result is not cut with the output")
		} else {
			require.Equal(t, c.want, end.outcome.Error.Code)
		}
	}
}
