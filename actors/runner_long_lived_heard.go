package actors

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
)

// heard takes an event of the program. It runs in the program's reader.
func (p *longLivedRunner) heard(ev process.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		p.put(ev)
		return
	}
	p.take(ev)
}

// deferredMax bounds the events that are kept of a program that talks before it is known. It has been asked nothing yet,
// so past the bound only its end and what broke the protocol matter.
const deferredMax = 1024

// put keeps an event until the program is known. What is dropped is counted, and told when it is.
func (p *longLivedRunner) put(ev process.Event) {
	switch ev.(type) {
	case process.Broken, process.Exited: // one of each at most
	default:
		if len(p.deferred) >= deferredMax {
			p.dropped++
			return
		}
	}
	p.deferred = append(p.deferred, ev)
}

// take handles one event; the lock is held.
func (p *longLivedRunner) take(ev process.Event) {
	switch ev := ev.(type) {
	case process.Reply:
		p.replied(ev)
	case process.Progress:
		p.live(ev.ID, messages.RunEvent{Kind: "progress", At: time.Now(), Fraction: ev.Fraction, Message: ev.Message})
	case process.Chunk:
		if ev.Err != nil {
			p.refuse(ev)
			return
		}
		p.live(ev.ID, messages.RunEvent{Kind: "chunk", At: time.Now(), Chunk: ev.Data})
	case process.Log:
		p.live(ev.ID, messages.RunEvent{Kind: "log", At: time.Now(), Level: ev.Level, Message: ev.Message})
	case process.Fault:
		p.faulted(ev)
	case process.Wrote:
		if p.run != nil {
			p.cfg.Feeds.Add(p.run.Execution.ID, wrote(ev))
		}
	case process.Broken:
		p.broken = ev.Reason
	case process.Exited:
		p.exited, p.pid = true, 0
		end := &gone{exit: ev.Exit, broken: p.broken, output: p.process.TakeOutput(), stderr: p.process.StderrTail()}
		if p.run != nil && p.runID != 0 {
			end.running, end.restored, end.lost = p.run.Placement(), p.whole(), p.lost
		}
		p.run = nil
		p.post(end)
	}
}

// faultsMax bounds the late failures that are heard of one program. It is replaced long before.
const faultsMax = 100

// faulted passes on a failure that came after its run. A program may name only a run that it has had.
func (p *longLivedRunner) faulted(ev process.Fault) {
	if p.faults++; p.faults > faultsMax {
		return
	}
	of := messages.Placement{Execution: ev.Execution, Attempt: ev.Attempt}
	if !slices.Contains(p.had, of) {
		of = messages.Placement{}
	}
	p.post(&lateFailure{placement: of, err: ev.Err.Said()})
}

// hadMax bounds the runs that a program may say it has late failures of: the newest.
const hadMax = 256

// has notes the run that the program is given.
func (p *longLivedRunner) has(r *Run) {
	if len(p.had) == hadMax {
		p.had = slices.Delete(p.had, 0, hadMax/2)
	}
	p.had = append(p.had, r.Placement())
}

// refuse notes that a chunk of the run cannot be kept.
func (p *longLivedRunner) refuse(c process.Chunk) {
	if p.run != nil && c.ID == p.runID && p.refused == nil {
		p.refused = c.Err
	}
	p.live(c.ID, messages.RunEvent{Kind: "log", At: time.Now(), Level: "error", Message: c.Err.Message})
}

// live passes on a sign of the run, if it is of the run.
func (p *longLivedRunner) live(id uint64, e messages.RunEvent) {
	if p.run == nil || id == 0 || id != p.runID { // 0 is the worker's own, also while a run waits for its session's state
		if e.Kind == "log" && id == 0 {
			p.cfg.Logger.Info("worker says", "worker", p.worker, "level", e.Level, "message", e.Message)
		}
		return
	}
	p.cfg.Feeds.Add(p.run.Execution.ID, e)
	if p.run.Execution.StallTimeout > 0 {
		p.post(&sign{})
	}
}

func (p *longLivedRunner) replied(r process.Reply) {
	request, known := p.pending[r.ID]
	if !known {
		if p.cfg.UnknownReply != nil {
			p.cfg.UnknownReply(p.cfg.PoolName)
		}
		return
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
func (p *longLivedRunner) greeted(r process.Reply) error {
	if r.Err != nil {
		return &StartError{Why: r.Err.Message, Traceback: messages.Traceback(r.Err.Details)}
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
