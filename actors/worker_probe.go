package actors

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// probing is a worker's health checking.
type probing struct {
	id      uint64 // of the probe under way or the last one
	running bool
	due     bool // one was asked for while a run was on the worker that cannot answer meanwhile
	began   time.Time
	last    time.Time // when the last one was answered
	timer   *time.Timer
	again   *time.Timer // the next probe of a worker that failed one
	answers []*ProbeQuestion
}

// probeAnswersMax bounds the callers that wait for one probe.
const probeAnswersMax = 64

var (
	errProbeLate  = errors.New("health_check_timeout")
	errProbeCrowd = errors.New("too many callers wait for this worker's probe; ask again later")
)

// probeLate says that a probe was not answered in time.
type probeLate struct{ id uint64 }

// EchoHeader marks the message of a dispatch echo; its value is the echo's id.
const EchoHeader = "troupe-echo"

// Echo is a dispatch echo; the worker actor answers it itself, busy or not.
type Echo struct{ ID string }

// startProbe sends a health check to the runner, unless one is under way.
func (w *Worker) startProbe(answer *ProbeQuestion) {
	switch {
	case answer == nil:
	case len(w.probe.answers) < probeAnswersMax:
		w.probe.answers = append(w.probe.answers, answer)
	default:
		answer.Reply("", errProbeCrowd)
	}
	if w.probe.running || w.leaving != nil {
		w.answerIfEnding()
		return
	}
	if w.machine.State() == lifecycle.Initializing {
		w.answerProbe("initializing")
		return
	}
	w.probe.due = false
	w.probe.id++
	w.probe.running, w.probe.began = true, time.Now()
	w.probe.timer = w.later(w.cfg.ProbeTimeout, &probeLate{id: w.probe.id})
	w.runner.Probe(w.probe.id, w.run != nil)
}

func (w *Worker) answerIfEnding() {
	if w.leaving != nil {
		w.answerProbe("worker is ending: " + w.leaving.why)
	}
}

func (w *Worker) answerProbe(text string) {
	for _, q := range w.probe.answers {
		q.Reply(text, nil)
	}
	w.probe.answers = nil
}

func (w *Worker) probeLate(ctx actor.Context, m *probeLate) {
	if w.probe.running && m.id == w.probe.id {
		w.probed(ctx, &probed{id: m.id, err: errProbeLate})
	}
}

// errCannotAnswer is a runner's word that its code is busy and does not answer meanwhile. It is no failure.
var errCannotAnswer = errors.New("busy, and its program does not answer while working")

// probed takes a probe's answer.
func (w *Worker) probed(ctx actor.Context, m *probed) {
	if !w.probe.running || m.id != w.probe.id {
		return
	}
	stopTimer(w.probe.timer)
	w.probe.running = false
	took := time.Since(w.probe.began)
	if errors.Is(m.err, errCannotAnswer) {
		w.probe.due = true
		w.answerProbe(m.err.Error())
		if w.held != nil { // the run has ended meanwhile, and its check-in waits
			w.startProbe(nil)
		}
		return
	}
	if w.leaving != nil {
		w.answerIfEnding()
		return
	}
	w.probe.last = time.Now()
	if w.cfg.Probes != nil {
		w.cfg.Probes(w.cfg.PoolName, m.err == nil, took)
	}
	switch {
	case errors.Is(m.err, process.ErrShortage):
		w.probeShort(ctx, m.err)
	case m.err != nil:
		w.probeFailed(ctx, m.err)
	default:
		w.probePassed(ctx)
	}
}

func (w *Worker) probePassed(ctx actor.Context) {
	w.counts.ProbePassed()
	if entry, restored := w.machine.ProbePassed(time.Now()); restored {
		w.entered(entry)
	} else { // when it was last checked is part of the report, also where nothing else has changed
		w.show()
		w.tell(nil)
	}
	w.regrade()
	w.answerProbe("healthy") // after the report, so that who asked finds it
	if c := w.held; c != nil {
		w.stay(ctx, c, nil)
		return
	}
	w.next(nil)
}

func (w *Worker) probeFailed(ctx actor.Context, err error) {
	kind, text := lifecycle.ProbeFailed, err.Error()
	if errors.Is(err, errProbeLate) {
		kind, text = lifecycle.ProbeTimedOut, ""
	}
	count := w.counts.ProbeFailed()
	w.cfg.Logger.Warn("Worker health check failed", "worker", w.id, "generation", w.gen, "in_a_row", count, "error", err)
	w.answerProbe("unhealthy: " + err.Error())
	if w.cfg.Thresholds.Off { // somebody asked, and nothing follows from it
		w.probeIgnored(ctx)
		return
	}
	w.held = nil
	w.carry(ctx, lifecycle.Failure{Kind: kind, Text: text}, lifecycle.Metadata{Error: err.Error()})
	w.tell(nil)
	w.next(nil)
}

// probeIgnored goes on after a failed probe where health decides nothing.
func (w *Worker) probeIgnored(ctx actor.Context) {
	w.tell(nil)
	if c := w.held; c != nil {
		w.stay(ctx, c, nil)
		return
	}
	w.next(nil)
}

// probeAfter probes again after a while.
func (w *Worker) probeAfter(d time.Duration) {
	if d <= 0 {
		d = lifecycle.ProbeAgainAfter
	}
	if w.cfg.ProbeAgain > 0 {
		d = w.cfg.ProbeAgain
	}
	stopTimer(w.probe.again)
	w.probe.again = w.later(d, &Probe{})
}
