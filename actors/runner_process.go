package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/process"
	"github.com/troupe-run/troupe/messages"
)

// Program is a long-lived program and what it is told at hello.
type Program struct {
	Argv    []string
	Dir     string
	Env     []string // added to the outfit's
	Actions []ProgramAction
}

// ProgramAction is one action that a program loads at hello.
type ProgramAction struct {
	Ref        string `json:"ref"`
	Root       string `json:"root"`
	Entrypoint string `json:"entrypoint"`
}

// protocolVersion is the version of docs/protocol.md.
const protocolVersion = 1

// processRunner keeps one long-lived program that speaks the frame protocol.
type processRunner struct {
	crew    *Crew
	outfit  *Outfit
	program *Program
	worker  messages.WorkerID
	gen     messages.Generation
	post    func(any)

	mu       sync.Mutex
	process  process.Process
	pid      int
	traits   Traits
	asks     map[string]bool // capabilities
	pending  map[uint64]pendingRequest
	run      *Run
	runID    uint64 // of its execute; 0: the program has not been told yet
	stopped  bool   // the run is being stopped
	restored bool   // the run's session has its state back
	killed   bool
	exited   bool
	broken   string
	deferred []process.Event // events that came before Start returned the process
}

// pendingRequest is a request whose answer is awaited.
type pendingRequest struct {
	command string
	probe   uint64
	session string
	epoch   int64
}

// pendingMax bounds the requests that a program has not answered yet.
const pendingMax = 1024

var errTooManyPending = errors.New("the program has too many unanswered requests")

// ProcessRunner returns a maker of runners for python, node and process actions.
func ProcessRunner(outfit *Outfit, program *Program) func(*Crew, messages.WorkerID, messages.Generation) Runner {
	return func(c *Crew, id messages.WorkerID, gen messages.Generation) Runner {
		return &processRunner{
			crew: c, outfit: outfit, program: program, worker: id, gen: gen,
			traits: Traits{Lives: true, Probes: true}, pending: map[uint64]pendingRequest{},
		}
	}
}

func (p *processRunner) Begin(post func(any)) {
	p.post = post
	go p.start()
}

func (p *processRunner) start() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	started, err := p.outfit.Launcher.Start(ctx, process.Spec{
		Argv: p.program.Argv, Dir: p.program.Dir, Env: p.env(), Framed: true,
		Limits: p.outfit.Limits, OutputMax: p.outfit.Output, FrameMax: p.outfit.FrameMax,
	}, p.heard)
	if err != nil {
		p.post(&begun{err: fmt.Errorf("failed to start %s: %w", programOf(p.crew.Runtime), err)})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.process = started
	if !p.exited {
		p.pid = started.Pid()
	}
	for _, ev := range p.deferred {
		p.take(ev)
	}
	p.deferred = nil
	if p.killed {
		started.Kill()
		return
	}
	_, err = p.ask("hello", pendingRequest{}, p.hello())
	// A pipe that is closed already belongs to a program that has ended: the news of that follows, and says why. One
	// that has closed it and lives runs into the init timeout.
	if err != nil && !errors.Is(err, process.ErrInputClosed) {
		p.post(&begun{err: err})
	}
}

// programOf names what a runtime starts: "python process", "process".
func programOf(r messages.Runtime) string {
	if r == messages.RuntimeProcess {
		return "process"
	}
	return string(r) + " process"
}

func (p *processRunner) env() []string {
	env := append(slices.Clone(p.outfit.Env), p.program.Env...)
	return append(env, "TROUPE_PROTOCOL="+strconv.Itoa(protocolVersion), "TROUPE_WORKER="+string(p.worker),
		"TROUPE_POOL="+p.crew.PoolName, "TROUPE_GENERATION="+strconv.Itoa(int(p.gen)),
		"TROUPE_INCARNATION="+p.crew.Incarnation.String())
}

func (p *processRunner) hello() any {
	return map[string]any{
		"protocol": protocolVersion, "worker": p.worker, "generation": p.gen, "pool": p.crew.PoolName,
		"actions": p.program.Actions,
	}
}

// ask sends a request; the caller holds the lock.
func (p *processRunner) ask(command string, r pendingRequest, args any) (uint64, error) {
	if p.process == nil || p.exited {
		return 0, errors.New("the program is not running")
	}
	if len(p.pending) >= pendingMax {
		return 0, errTooManyPending
	}
	id, err := p.process.Send(command, args)
	if err != nil {
		return 0, err
	}
	r.command = command
	p.pending[id] = r
	return id, nil
}

// heard takes an event of the program. It runs in the program's reader.
func (p *processRunner) heard(ev process.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		p.deferred = append(p.deferred, ev)
		return
	}
	p.take(ev)
}

// take handles one event; the lock is held.
func (p *processRunner) take(ev process.Event) {
	switch ev := ev.(type) {
	case process.Reply:
		p.replied(ev)
	case process.Progress:
		p.live(ev.ID, Happening{Kind: "progress", At: time.Now(), Fraction: ev.Fraction, Message: ev.Message})
	case process.Chunk:
		p.live(ev.ID, Happening{Kind: "chunk", At: time.Now(), Chunk: ev.Data})
	case process.Log:
		p.live(ev.ID, Happening{Kind: "log", At: time.Now(), Level: ev.Level, Message: ev.Message})
	case process.Wrote:
		if p.run != nil {
			p.crew.Board.Add(p.run.Execution.ID, wrote(ev))
		}
	case process.Broken:
		p.broken = ev.Reason
	case process.Exited:
		p.exited, p.pid = true, 0
		end := &gone{exit: ev.Exit, broken: p.broken, output: p.process.TakeOutput(), stderr: p.process.StderrTail()}
		if p.run != nil && p.runID != 0 {
			end.running, end.restored = p.run.Placement(), p.restored
		}
		p.run = nil
		p.post(end)
	}
}

// live passes on a sign of the run, if it is of the run.
func (p *processRunner) live(id uint64, h Happening) {
	if p.run == nil || id != p.runID {
		if h.Kind == "log" && id == 0 {
			p.crew.Logger.Info("worker says", "worker", p.worker, "level", h.Level, "message", h.Message)
		}
		return
	}
	p.crew.Board.Add(p.run.Execution.ID, h)
	if p.run.Execution.StallTimeout > 0 {
		p.post(&sign{})
	}
}

func (p *processRunner) replied(r process.Reply) {
	request, known := p.pending[r.ID]
	if !known {
		return // counted by the port
	}
	delete(p.pending, r.ID)
	switch request.command {
	case "hello":
		p.post(&begun{err: p.greeted(r)})
	case "execute":
		p.finished(r)
	case "ping", "health_check":
		p.post(&probed{id: request.probe, err: replyError(r)})
	case "snapshot":
		p.snapshotTaken(request, r)
	case "restore":
		p.restoreAnswered(r)
	}
}

func replyError(r process.Reply) error {
	if r.Err == nil {
		return nil
	}
	return fmt.Errorf("health_check_failed: %s", r.Err.Message)
}

// greeted reads the program's answer to hello.
func (p *processRunner) greeted(r process.Reply) error {
	if r.Err != nil {
		return errors.New(r.Err.Message)
	}
	var hello struct {
		Protocol     int             `json:"protocol"`
		Capabilities map[string]bool `json:"capabilities"`
	}
	if err := json.Unmarshal(r.Result, &hello); err != nil {
		return fmt.Errorf("hello was answered with something else than the protocol's object: %w", err)
	}
	if hello.Protocol != protocolVersion {
		return fmt.Errorf("the program speaks protocol %d, this node %d", hello.Protocol, protocolVersion)
	}
	p.asks = hello.Capabilities
	p.traits.Cancels = hello.Capabilities["cancel"]
	p.traits.Snapshots = hello.Capabilities["snapshot"]
	return nil
}

// executeArgs is the execute request of docs/protocol.md.
type executeArgs struct {
	Execution  messages.ExecutionID `json:"execution"`
	Attempt    messages.Attempt     `json:"attempt"`
	Action     string               `json:"action"`
	Root       string               `json:"root"`
	Entrypoint string               `json:"entrypoint"`
	Parameters json.RawMessage      `json:"parameters"`
	Session    *executeSession      `json:"session"`
	DeadlineMS int64                `json:"deadline_ms"`
	RetryCount int                  `json:"retry_count"`
	Trace      string               `json:"trace,omitempty"`
}

type executeSession struct {
	ID    string `json:"id"`
	Epoch int64  `json:"epoch"`
	Lost  bool   `json:"lost"`
	Hit   bool   `json:"hit"`
}

// Run sends the execute, after the session's kept state where there is one. A program that cannot take it never
// started the run: its end is reported as the worker's.
func (p *processRunner) Run(r *Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run, p.runID, p.restored = r, 0, false
	p.stopped = r.stop != notStopped
	if p.process != nil {
		p.process.TakeOutput()
	}
	if len(r.Restore) > 0 && p.traits.Snapshots {
		args := map[string]any{"session": r.Execution.Session, "epoch": r.Execution.SessionEpoch, "state": r.Restore}
		if _, err := p.ask("restore", pendingRequest{}, args); err == nil {
			return
		}
	}
	p.execute()
}

// restoreAnswered starts the run once its session has its state back, or could not be given it.
func (p *processRunner) restoreAnswered(r process.Reply) {
	if p.run == nil || p.runID != 0 {
		return
	}
	if r.Err == nil {
		p.restored = true
	} else {
		p.crew.Logger.Warn("session state not restored", "worker", p.worker, "session", p.run.Execution.Session, "error", r.Err)
	}
	p.execute()
}

func (p *processRunner) execute() {
	id, err := p.ask("execute", pendingRequest{}, p.arguments(p.run))
	if err != nil {
		r := p.run
		p.run = nil
		p.post(notTaken(r, err))
		return
	}
	p.runID = id
	if p.stopped {
		p.cancelRun()
	}
}

// notTaken is the end of a run whose execute did not reach the program. One that is too large never will; any other
// says that the program is not well, and the run has not begun.
func notTaken(r *Run, err error) *ended {
	why := "execute not taken: " + err.Error()
	if errors.Is(err, process.ErrTooLarge) {
		return &ended{placement: r.Placement(), outcome: failed(&messages.Error{
			Code: messages.CodeTooLarge, Message: why, FailedBy: failedByWorker,
		})}
	}
	return &ended{placement: r.Placement(), crashed: why, unstarted: true, outcome: lost(why, "", "")}
}

func (p *processRunner) arguments(r *Run) *executeArgs {
	e := r.Execution
	args := &executeArgs{
		Execution: e.ID, Attempt: e.Attempt, Action: e.Action, Root: r.Action.Root, Entrypoint: r.Action.Entrypoint,
		Parameters: e.Parameters, RetryCount: e.RetryCount, Trace: e.Trace, DeadlineMS: e.Timeout.Milliseconds(),
	}
	if len(args.Parameters) == 0 {
		args.Parameters = json.RawMessage("{}")
	}
	if e.Session != "" {
		args.Session = &executeSession{
			ID: e.Session, Epoch: e.SessionEpoch, Lost: e.SessionLost && !p.restored, Hit: e.SessionHit,
		}
	}
	return args
}

// finished takes the answer to the run.
func (p *processRunner) finished(reply process.Reply) {
	r := p.run
	if r == nil || reply.ID != p.runID {
		return
	}
	p.run = nil
	end := &ended{placement: r.Placement(), output: p.process.TakeOutput(), restored: p.restored, close: reply.Close}
	if reply.Err != nil {
		end.outcome = failed(reply.Err)
		if reply.Err.Stderr == "" && len(end.output.Stderr) > 0 {
			reply.Err.Stderr = p.process.StderrTail()
		}
	} else {
		end.outcome = completed(reply.Result)
	}
	p.post(end)
}

// Step carries out a step of a ladder.
func (p *processRunner) Step(step process.Step, r *Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		p.killed = p.killed || step >= process.StepTerminate
		return
	}
	switch step {
	case process.StepCancel:
		p.stopped = true
		p.cancelRun()
	case process.StepShutdown:
		if _, err := p.ask("shutdown", pendingRequest{}, struct{}{}); err != nil {
			p.process.CloseInput()
		}
	case process.StepTerminate:
		p.process.Terminate()
	case process.StepKill:
		p.process.Kill()
	}
}

func (p *processRunner) cancelRun() {
	if p.run == nil || p.runID == 0 {
		return
	}
	if _, err := p.ask("cancel", pendingRequest{}, map[string]uint64{"request": p.runID}); err != nil {
		p.process.Terminate()
	}
}

// Probe checks the program: the kernel's view of it always; health_check while it is idle; ping while it is busy,
// where it answers pings then.
func (p *processRunner) Probe(id uint64, busy bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || p.exited {
		p.post(&probed{id: id, err: errors.New("health_check_failed: the program is not running")})
		return
	}
	if v, err := p.process.Vitals(); err == nil && (v.State == 'T' || v.State == 't' || v.State == 'Z') {
		p.post(&probed{id: id, err: fmt.Errorf("health_check_failed: the process is in state %c", v.State)})
		return
	}
	command := "health_check"
	if busy {
		command = "ping"
		if !p.asks["ping_while_busy"] {
			p.post(&probed{id: id, err: errCannotAnswer})
			return
		}
	}
	if _, err := p.ask(command, pendingRequest{probe: id}, struct{}{}); err != nil {
		p.post(&probed{id: id, err: err})
	}
}

func (p *processRunner) EndSession(session string, epoch int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asks["sessions"] {
		if _, err := p.ask("end_session", pendingRequest{}, map[string]any{"session": session, "epoch": epoch}); err != nil {
			p.crew.Logger.Warn("end of session not told", "worker", p.worker, "session", session, "error", err)
		}
	}
}

func (p *processRunner) Snapshot(session string, epoch int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.ask("snapshot", pendingRequest{session: session, epoch: epoch},
		map[string]any{"session": session, "epoch": epoch})
	return err == nil
}

func (p *processRunner) snapshotTaken(request pendingRequest, r process.Reply) {
	out := &snapshot{session: request.session, epoch: request.epoch}
	var answer struct {
		State json.RawMessage `json:"state"`
	}
	switch {
	case r.Err != nil:
		out.err = r.Err
	case json.Unmarshal(r.Result, &answer) != nil || len(answer.State) == 0:
		out.err = errors.New("snapshot was answered without a state")
	default:
		out.state = answer.State
	}
	p.post(out)
}

func (p *processRunner) Traits() Traits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.traits
}

// Stderr is the last that the program wrote to its standard error.
func (p *processRunner) Stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return ""
	}
	return p.process.StderrTail()
}

func (p *processRunner) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}
