package actors

import (
	"errors"
	"time"

	"github.com/troupe-run/troupe/rules/lifecycle"
)

// prober makes a worker's health checks, one at a time. What follows from them it does not know.
type prober struct {
	*workerShell
	worker  probing
	id      uint64 // of the probe under way or the last one
	running bool
	due     bool // one was asked for while a run was on the worker that cannot answer meanwhile
	began   time.Time
	last    time.Time // when the last one was answered
	timer   Timer
	later   Timer // until the next probe of a worker that failed one
	answers []*ProbeQuestion
}

// probing is the worker, as its prober sees it.
type probing interface {
	// probed takes what a probe has found.
	probed(err error, took time.Duration)
	// probeAgain has the worker probed once more.
	probeAgain()
}

// probeAnswersMax bounds the callers that wait for one probe.
const probeAnswersMax = 64

var (
	errProbeLate  = errors.New("health_check_timeout")
	errProbeCrowd = errors.New("too many callers wait for this worker's probe; ask again later")
)

// errCannotAnswer is a runner's word that its code is busy and does not answer meanwhile. It is no failure.
var errCannotAnswer = errors.New("busy, and its program does not answer while working")

// EchoHeader marks the message of a dispatch echo; its value is the echo's id.
const EchoHeader = "troupe-echo"

// Echo is a dispatch echo; the worker actor answers it itself, busy or not.
type Echo struct{ ID string }

// await keeps a caller, who may be nil, for the next answer.
func (p *prober) await(q *ProbeQuestion) {
	switch {
	case q == nil:
	case len(p.answers) < probeAnswersMax:
		p.answers = append(p.answers, q)
	default:
		q.Reply("", errProbeCrowd)
	}
}

// answer tells those who wait.
func (p *prober) answer(text string) {
	for _, q := range p.answers {
		q.Reply(text, nil)
	}
	p.answers = nil
}

// start sends a health check to the runner; busy says that a run is on it.
func (p *prober) start(busy bool) {
	p.due = false
	p.id++
	p.running, p.began = true, p.world.Now()
	id := p.id
	p.timer = p.cfg.Awake.after(p.world, p.cfg.ProbeTimeout, func() { p.answered(&probed{id: id, err: errProbeLate}) })
	p.runner.Probe(p.id, busy)
}

// answered takes a probe's answer, or that there is none in time.
func (p *prober) answered(m *probed) {
	if !p.running || m.id != p.id {
		return
	}
	stopTimer(p.timer)
	p.running = false
	p.worker.probed(m.err, p.world.Now().Sub(p.began))
}

// after probes again after a while.
func (p *prober) after(d time.Duration) {
	stopTimer(p.later)
	p.later = p.world.After(probeDelay(d, p.cfg.ProbeAgain), p.worker.probeAgain)
}

// probeDelay is how long a worker waits for its next probe: what is configured comes first, then the recovery table's word.
func probeDelay(verdict, configured time.Duration) time.Duration {
	switch {
	case configured > 0:
		return configured
	case verdict > 0:
		return verdict
	}
	return lifecycle.ProbeAgainAfter
}

// stop ends the timers.
func (p *prober) stop() {
	stopTimer(p.timer)
	stopTimer(p.later)
}
