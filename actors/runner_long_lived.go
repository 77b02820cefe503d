package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
)

// Program is a long-lived program and what it is told at hello.
type Program struct {
	Name    string // in messages: "python process"
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

// longLivedRunner keeps one long-lived program that speaks the frame protocol.
type longLivedRunner struct {
	cfg     *WorkerConfig
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
	runID    uint64               // of its execute; 0: the program has not been told yet
	stopped  bool                 // the run is being stopped
	restored bool                 // the run's session has its state back
	lost     bool                 // the run is told that it has lost state
	had      []messages.Placement // the newest runs, up to hadMax
	refused  *messages.Error      // of the run's first chunk that cannot be kept: it fails with that, whatever it answers
	faults   int                  // late failures that it told
	secrets  []string             // parameters of the newest runs that are masked: a run may say them when it is over
	killed   bool
	exited   bool
	broken   string
	deferred []process.Event // events that came before Start returned the process, up to deferredMax
	dropped  int             // of them, past the bound
}

// pendingRequest is a request whose answer is awaited.
type pendingRequest struct {
	command string
	probe   uint64
	session string
	epoch   int64
	// snapshot is who asked for it.
	snapshot uint64
}

// pendingMax bounds the requests that a program has not answered yet.
const pendingMax = 1024

var errTooManyPending = errors.New("the program has too many unanswered requests")

// LongLivedRunner returns a maker of runners that keep one long-lived program each.
func LongLivedRunner(outfit *Outfit, program *Program) func(*WorkerConfig, messages.WorkerID, messages.Generation) Runner {
	return func(c *WorkerConfig, id messages.WorkerID, gen messages.Generation) Runner {
		return &longLivedRunner{
			cfg: c, outfit: outfit, program: program, worker: id, gen: gen,
			traits: Traits{LongLived: true, Probes: true}, pending: map[uint64]pendingRequest{},
		}
	}
}

func (p *longLivedRunner) Begin(post func(any)) {
	p.post = post
	go p.start()
}

func (p *longLivedRunner) start() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	secrets, err := p.outfit.secrets()
	if err != nil {
		p.post(&begun{err: err})
		return
	}
	started, err := p.outfit.start(ctx, process.Spec{
		Argv: p.program.Argv, Dir: p.program.Dir, Env: p.env(), Framed: true, FrameMax: p.outfit.FrameMax,
	}, secrets, p.heard)
	if err != nil {
		p.post(&begun{err: fmt.Errorf("failed to start %s: %w", p.program.Name, err)})
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
	if p.deferred = nil; p.dropped > 0 {
		p.cfg.Logger.Warn("a program talked before it was asked; some of what it said is dropped", "worker", p.worker,
			"dropped", p.dropped)
	}
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

func (p *longLivedRunner) env() []string {
	env := append(slices.Clone(p.outfit.Env), p.program.Env...)
	return append(env, "TROUPE_PROTOCOL="+strconv.Itoa(protocolVersion), "TROUPE_WORKER="+string(p.worker),
		"TROUPE_POOL="+p.cfg.PoolName, "TROUPE_GENERATION="+strconv.Itoa(int(p.gen)),
		"TROUPE_INCARNATION="+p.cfg.Incarnation.String())
}

func (p *longLivedRunner) hello() any {
	args := map[string]any{
		"protocol": protocolVersion, "worker": p.worker, "generation": p.gen, "pool": p.cfg.PoolName,
		"actions": p.program.Actions, "faults": true,
	}
	if p.outfit.FrameMax > 0 {
		args["frame_max"] = p.outfit.FrameMax
	}
	return args
}

// ask sends a request; the caller holds the lock.
func (p *longLivedRunner) ask(command string, r pendingRequest, args any) (uint64, error) {
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

// Step carries out a step of a ladder.
func (p *longLivedRunner) Step(step process.Step, r *Run) {
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

func (p *longLivedRunner) cancelRun() {
	if p.run == nil || p.runID == 0 {
		return
	}
	if _, err := p.ask("cancel", pendingRequest{}, map[string]uint64{"request": p.runID}); err != nil {
		p.process.Terminate()
	}
}

// Probe checks the program: the kernel's view of it always; health_check while it is idle; ping while it is busy,
// where it answers pings then.
func (p *longLivedRunner) Probe(id uint64, busy bool) {
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

func (p *longLivedRunner) EndSession(session string, epoch int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asks["sessions"] {
		if _, err := p.ask("end_session", pendingRequest{}, map[string]any{"session": session, "epoch": epoch}); err != nil {
			p.cfg.Logger.Warn("end of session not told", "worker", p.worker, "session", session, "error", err)
		}
	}
}

func (p *longLivedRunner) Snapshot(session string, epoch int64, id uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.ask("snapshot", pendingRequest{session: session, epoch: epoch, snapshot: id},
		map[string]any{"session": session, "epoch": epoch})
	return err == nil
}

func (p *longLivedRunner) snapshotTaken(request pendingRequest, r process.Reply) {
	out := &snapshot{id: request.snapshot, session: request.session, epoch: request.epoch}
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

func (p *longLivedRunner) Traits() Traits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.traits
}

// Stderr is the last that the program wrote to its standard error.
func (p *longLivedRunner) Stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return ""
	}
	return p.process.StderrTail()
}

func (p *longLivedRunner) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}
