package actors

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/mask"
)

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
	TraceState string               `json:"trace_state,omitempty"`
}

type executeSession struct {
	ID    string `json:"id"`
	Epoch int64  `json:"epoch"`
	Lost  bool   `json:"lost"`
	Hit   bool   `json:"hit"`
	// Behind is how many finished runs the state that was given back lacks; 0 where none was, or it lacks none.
	Behind int64 `json:"runs_behind,omitempty"`
}

// Run sends the execute, after the session's kept state where there is one. A program that cannot take it never
// started the run: its end is reported as the worker's.
func (p *longLivedRunner) Run(r *Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run, p.runID, p.restored, p.lost, p.refused = r, 0, false, false, nil
	p.stopped = r.stop != notStopped
	if p.process != nil {
		p.process.ClearOutput() // what was written before is another run's, perhaps another session's
		p.mask(r)
	}
	if len(r.Restore) > 0 && p.traits.Snapshots {
		args := map[string]any{"session": r.Execution.Session, "epoch": r.Execution.SessionEpoch, "state": r.Restore}
		if _, err := p.ask("restore", pendingRequest{}, args); err == nil {
			return
		}
	}
	p.execute()
}

// mask masks the parameters of the run that its action keeps secret, and those of the runs before it as far as a set has room.
func (p *longLivedRunner) mask(r *Run) {
	own := pack.SecretValues(r.Action, r.Execution.Parameters)
	if len(own) == 0 {
		return
	}
	if all := mask.Fitting(append(own, p.secrets...)); !slices.Equal(all, p.secrets) {
		p.secrets = all
		p.process.Mask(runMasks(p.secrets))
	}
}

// runMasks masks the values that can be masked.
func runMasks(values []string) *mask.Set {
	set, _ := mask.New(mask.Fitting(values)) // takes what fits
	return set
}

// restoreAnswered starts the run once its session has its state back, or could not be given it. One that is being stopped ends instead: its
// code need not hear of it.
func (p *longLivedRunner) restoreAnswered(r process.Reply) {
	if p.run == nil || p.runID != 0 {
		return
	}
	p.post(&stateAnswered{placement: p.run.Placement()})
	if run := p.run; p.stopped {
		p.run = nil
		p.post(&ended{placement: run.Placement(), neverRan: true, outcome: failed(cancelledBy(run))})
		return
	}
	if r.Err == nil {
		p.restored = true
	} else {
		p.cfg.Logger.Warn("session state not restored", "worker", p.worker, "session", p.run.Execution.Session, "error", r.Err)
		p.cfg.Feeds.Add(p.run.Execution.ID, messages.RunEvent{
			Kind: "log", At: time.Now(), Level: "warning", Message: "the session's state was not restored, and the run goes on without it: " + r.Err.Message,
		})
	}
	p.execute()
}

// whole reports whether the run's session has got all of its state back.
func (p *longLivedRunner) whole() bool { return p.restored && p.run != nil && p.run.Behind == 0 }

func (p *longLivedRunner) execute() {
	id, err := p.ask("execute", pendingRequest{}, p.arguments(p.run))
	if err != nil {
		r := p.run
		p.run = nil
		p.post(notTaken(r, err))
		return
	}
	p.has(p.run)
	p.runID, p.lost = id, p.run.Execution.SessionLost && !p.whole()
	if p.stopped {
		p.cancelRun()
	}
}

// notTaken is the end of a run whose execute did not reach the program. One that is too large never will; any other
// says that the program is not well, and the run has not begun.
func notTaken(r *Run, err error) *ended {
	why := "execute not taken: " + err.Error()
	if errors.Is(err, process.ErrTooLarge) {
		return &ended{placement: r.Placement(), neverRan: true, outcome: failed(&messages.Error{
			Code: messages.CodeTooLarge, Message: why, FailedBy: messages.FailedByWorker,
		})}
	}
	return &ended{placement: r.Placement(), crashed: why, unstarted: true, outcome: lost(why, "", "")}
}

func (p *longLivedRunner) arguments(r *Run) *executeArgs {
	e := r.Execution
	args := &executeArgs{
		Execution: e.ID, Attempt: e.Attempt, Action: e.Action, Root: r.Action.Root, Entrypoint: r.Action.Entrypoint,
		Parameters: e.Parameters, RetryCount: e.RetryCount, Trace: messages.TraceParent(r.Trace), TraceState: messages.TraceState(r.Trace), DeadlineMS: e.Timeout.Milliseconds(),
	}
	if len(args.Parameters) == 0 {
		args.Parameters = json.RawMessage("{}")
	}
	if e.Session != "" {
		args.Session = &executeSession{
			ID: e.Session, Epoch: e.SessionEpoch, Lost: e.SessionLost && !p.whole(), Hit: e.SessionHit,
		}
		if p.restored {
			args.Session.Behind = r.Behind
		}
	}
	return args
}

// finished takes the answer to the run.
func (p *longLivedRunner) finished(reply process.Reply) {
	r := p.run
	if r == nil || reply.ID != p.runID {
		return
	}
	end := &ended{placement: r.Placement(), output: p.process.TakeOutput(), restored: p.whole(), lost: p.lost, close: reply.Close}
	p.run = nil
	if reply.Err == nil {
		reply.Err = p.refused
	}
	if reply.Err != nil {
		if reply.Err.Stderr == "" && len(end.output.Stderr) > 0 {
			reply.Err.Stderr = p.process.StderrTail()
		}
		end.outcome = failed(reply.Err.Said())
	} else {
		end.outcome = completed(reply.Result)
	}
	p.post(end)
}
