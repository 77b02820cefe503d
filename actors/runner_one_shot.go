package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/runtime"
)

// exitTryAgain is EX_TEMPFAIL of sysexits: the command asks to be tried again.
const exitTryAgain = 75

// startTimeout bounds how long the guardian may take to start a program.
const startTimeout = 10 * time.Second

// oneShotRunner runs one program per execution.
type oneShotRunner struct {
	cfg    *WorkerConfig
	outfit *Outfit
	launch func(*messages.Action) runtime.Program
	worker messages.WorkerID
	gen    messages.Generation
	post   func(any)
}

// OneShotRunner returns a maker of runners that start a program for each execution; launch says how, by the action.
func OneShotRunner(outfit *Outfit, launch func(*messages.Action) runtime.Program) func(*WorkerConfig, messages.WorkerID, messages.Generation) Runner {
	return func(c *WorkerConfig, id messages.WorkerID, gen messages.Generation) Runner {
		return &oneShotRunner{cfg: c, outfit: outfit, launch: launch, worker: id, gen: gen}
	}
}

// command is one running command. The wish to stop it and even its end may come before Start has returned it.
type command struct {
	mu      sync.Mutex
	process process.Process
	step    process.Step    // the hardest step asked for before the process was there
	exited  *process.Exited // the end, where it came before
}

// arrived keeps the process and returns what came before it.
func (c *command) arrived(p process.Process) (process.Step, *process.Exited) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = p
	return c.step, c.exited
}

// end returns the process, or keeps its end for arrived.
func (c *command) end(e process.Exited) process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		c.exited = &e
	}
	return c.process
}

// at returns the process, or keeps the step for arrived.
func (c *command) at(step process.Step) process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		c.step = max(c.step, step)
	}
	return c.process
}

func (s *oneShotRunner) Begin(post func(any)) {
	s.post = post
	post(&begun{})
}

func (s *oneShotRunner) Run(r *Run) {
	c := &command{}
	r.handle = c
	go s.start(r.Execution, r.Action, r.Trace, c)
}

// start starts the command. Its end comes through the sink.
func (s *oneShotRunner) start(e *messages.Execution, a *messages.Action, trace string, c *command) {
	p := e.Placement()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	params := e.Parameters
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	secrets, err := s.outfit.secrets()
	if errors.Is(err, process.ErrShortage) {
		s.post(&ended{placement: p, short: err})
		return
	}
	if err != nil {
		s.post(&ended{placement: p, neverRan: true, outcome: failed(&messages.Error{
			Code: messages.CodeActionError, Message: fmt.Sprintf("action %s: %v", a.Ref, err),
		})})
		return
	}
	program := s.launch(a)
	spec := process.Spec{
		Argv: program.Argv, Dir: a.Root, Env: s.env(e, trace, program.Env), Stdin: params, StdoutMax: messages.ResultMax + 1,
		RunMasks: runMasks(pack.SecretValues(a, e.Parameters)),
	}
	started, err := s.outfit.start(ctx, spec, secrets, func(ev process.Event) { s.heard(e, p, c, ev) })
	if errors.Is(err, process.ErrShortage) {
		s.post(&ended{placement: p, short: err})
		return
	}
	if errors.Is(err, process.ErrGuardian) || errors.Is(err, context.DeadlineExceeded) { // it may have begun
		why := fmt.Sprintf("action %s: %v", a.Ref, err)
		s.post(&ended{placement: p, crashed: why, outcome: lost(why, "", "")})
		return
	}
	if err != nil {
		e := &messages.Error{Code: messages.CodeActionError, Message: fmt.Sprintf("action %s: %v", a.Ref, err)}
		if errors.Is(err, process.ErrUnstartable) {
			e.Code = messages.CodeCannotStart
		}
		s.post(&ended{placement: p, neverRan: true, outcome: failed(e)})
		return
	}
	step, exited := c.arrived(started)
	if exited != nil {
		s.exited(p, started, exited.Exit)
		return
	}
	stepProcess(started, step)
}

// env is the pool's environment with the program's, the execution's identity, the run's trace and the scalar parameters.
func (s *oneShotRunner) env(e *messages.Execution, trace string, program []string) []string {
	env := append(slices.Clone(s.outfit.Env), program...)
	env = append(env,
		"TROUPE_EXECUTION="+e.ID.String(), "TROUPE_ATTEMPT="+strconv.Itoa(int(e.Attempt)),
		"TROUPE_ACTION="+e.Action, "TROUPE_SESSION="+e.Session, "TROUPE_WORKER="+string(s.worker),
		"TROUPE_INCARNATION="+s.cfg.Incarnation.String(), "TRACEPARENT="+messages.TraceParent(trace))
	if state := messages.TraceState(trace); state != "" {
		env = append(env, "TRACESTATE="+state)
	}
	return append(env, parameterEnv(e.Parameters)...)
}

const (
	// paramMax bounds the value of one variable, in bytes; the kernel takes 128 KiB with the name.
	paramMax = 64 << 10
	// onStdin names the parameters that have no variable.
	onStdin = "TROUPE_PARAMS_ON_STDIN"
	// onStdinMax bounds that list, in bytes.
	onStdinMax = 32 << 10
)

// parameterEnv turns scalar parameters into TROUPE_PARAM_<NAME>. All parameters are on stdin. One that has no variable is named in
// TROUPE_PARAMS_ON_STDIN, so that a script which reads variables can tell it from one that was not given: a list, an object, null, a
// value with a NUL or too long, a name that no variable can have, and, of names that differ in case alone, all but the first.
func parameterEnv(parameters json.RawMessage) []string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(parameters, &fields) != nil {
		return nil
	}
	var env, left []string
	taken := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		upper, ok := runtime.ParameterVariable(name)
		if !ok || taken[upper] {
			left = append(left, name)
			continue
		}
		taken[upper] = true
		value, ok := scalar(fields[name])
		if !ok || strings.Contains(value, "\x00") || len(value) > paramMax {
			left = append(left, upper)
		} else {
			env = append(env, "TROUPE_PARAM_"+upper+"="+value)
		}
	}
	if len(left) == 0 {
		return env
	}
	return append(env, onStdin+"="+listed(left))
}

// listed is the list of names; "*" where it would be too long, or a name would not be told apart in it.
func listed(names []string) string {
	list := strings.Join(names, ",")
	unclear := func(name string) bool {
		return name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == ',' || unicode.IsControl(r) })
	}
	if len(list) > onStdinMax || slices.ContainsFunc(names, unclear) {
		return "*"
	}
	return list
}

func scalar(raw json.RawMessage) (string, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || string(raw) == "null" {
		return "", false
	}
	if raw[0] != '"' {
		return string(raw), true
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// heard takes what the command does.
func (s *oneShotRunner) heard(e *messages.Execution, p messages.Placement, c *command, ev process.Event) {
	switch ev := ev.(type) {
	case process.Wrote:
		s.cfg.Feeds.Add(e.ID, wrote(ev))
		if e.StallTimeout > 0 {
			s.post(&sign{})
		}
	case process.Exited:
		if proc := c.end(ev); proc != nil {
			s.exited(p, proc, ev.Exit)
		}
	}
}

func (s *oneShotRunner) exited(p messages.Placement, proc process.Process, exit process.Exit) {
	out := proc.TakeOutput()
	outcome := commandOutcome(exit, out, proc.StderrTail())
	if exit.Left != "" {
		s.cfg.Feeds.Add(p.Execution, messages.RunEvent{Kind: "stderr", At: time.Now(), Data: []byte(leftBehind(&out, &outcome, exit.Left))})
	}
	kept := s.outfit.Output
	if kept == 0 {
		kept = messages.OutputMax
	}
	if len(out.Stdout) > kept { // the rest was kept for the result alone
		out.Stdout, out.StdoutCut = slices.Clone(out.Stdout[:kept]), true
	}
	s.post(&ended{placement: p, output: out, outcome: outcome})
}

// leftBehind adds to what a command wrote on stderr which processes of it were ended when it ended: nobody finds them otherwise.
// It returns the line.
func leftBehind(out *messages.Output, outcome *messages.Outcome, left string) (note string) {
	note = "troupe: ended with the run: " + left + "\n"
	add := func(text string) string {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + note
	}
	if !out.ErrCut {
		out.Stderr = []byte(add(string(out.Stderr)))
	}
	if outcome.Error != nil {
		outcome.Error.Stderr = add(outcome.Error.Stderr)
	}
	return note
}

func wrote(ev process.Wrote) messages.RunEvent {
	e := messages.RunEvent{Kind: "stdout", At: time.Now(), Data: slices.Clone(ev.Data)}
	if ev.Stderr {
		e.Kind = "stderr"
	}
	return e
}

// commandOutcome judges how a command ended.
func commandOutcome(exit process.Exit, out messages.Output, stderr string) messages.Outcome {
	if exit.Cause == process.CauseExit && exit.Code == 0 {
		if out.StdoutCut {
			return failed(&messages.Error{
				Code: messages.CodeResultTooLarge, Exit: describeExit(exit), Stderr: stderr,
				Message: fmt.Sprintf("the result, which is stdout, has more than the %d bytes that can be stored; return a reference "+
					"instead, and write what is no result to stderr", messages.ResultMax),
			})
		}
		return completed(commandResult(out.Stdout))
	}
	err := &messages.Error{Code: messages.CodeExitStatus, Exit: describeExit(exit), Stderr: stderr}
	err.Message = "command ended: " + err.Exit
	switch exit.Cause {
	case process.CauseMemory, process.CauseCPU, process.CauseProcesses, process.CauseOOM:
		err.Code = messages.CodeLimit
	case process.CauseGuardian:
		return lost("command ended: "+err.Exit, err.Exit, stderr)
	}
	if exit.Code == exitTryAgain {
		again := true
		err.Retriable = &again
	}
	return failed(err)
}

// commandResult is stdout as JSON where it is JSON that can be stored, else as a JSON string.
func commandResult(stdout []byte) []byte {
	trimmed := bytes.TrimSpace(stdout)
	if messages.CheckJSON(trimmed) == nil {
		return trimmed
	}
	text := strings.TrimRight(string(stdout), "\n")
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	result, err := json.Marshal(text)
	if err != nil {
		return []byte(`""`)
	}
	return result
}

func (s *oneShotRunner) Step(step process.Step, r *Run) {
	if r == nil {
		return
	}
	c, ok := r.handle.(*command)
	if !ok {
		return
	}
	if proc := c.at(step); proc != nil {
		stepProcess(proc, step)
	}
}

func stepProcess(p process.Process, step process.Step) {
	switch step {
	case process.StepCancel, process.StepTerminate:
		p.Terminate()
	case process.StepKill:
		p.Kill()
	}
}

// Probe looks whether programs can be started at all: the shell pool's own is each action's business.
func (s *oneShotRunner) Probe(id uint64, _ bool) {
	s.post(&probed{id: id, err: process.CheckRoom()})
}

func (s *oneShotRunner) EndSession(string, int64)            {}
func (s *oneShotRunner) Snapshot(string, int64, uint64) bool { return false }
func (s *oneShotRunner) Traits() Traits                      { return Traits{} }
func (s *oneShotRunner) Pid() int                            { return 0 }
