package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
)

// StartError is why a worker never became ready: in one line, and where its code failed, where its program says that.
type StartError struct {
	Why       string
	Traceback string
}

func (e *StartError) Error() string { return e.Why }

// heardMax is how many messages of a runner can wait. A runner without a run posts begun and gone, once each; what else came would
// be dropped, for a runner must not be held up.
const heardMax = 8

// Try starts one worker with the configuration, beside its pool and as the pool would, and ends it again as soon as it could take work. Nil:
// it could. A *StartError says why it could not. It ends with ctx, or when its init timeout is over, and returns only
// once the program is gone.
func Try(ctx context.Context, cfg *WorkerConfig, id messages.WorkerID) error {
	runner := cfg.Runner(cfg, id, 0)
	if !runner.Traits().LongLived {
		return nil // nothing of it lives between two runs
	}
	heard := make(chan any, heardMax)
	runner.Begin(func(message any) {
		select {
		case heard <- message:
		default:
		}
	})
	limited, cancel := context.WithTimeoutCause(ctx, cfg.InitTimeout, errInitTimeout)
	defer cancel()
	failure, ended := firstWord(limited, runner, heard)
	if !ended {
		endTrial(runner, heard, failure == nil, cfg.Graces)
	}
	return failure
}

// firstWord waits for the runner's word on its start. Ended: its program is gone.
func firstWord(ctx context.Context, runner Runner, heard <-chan any) (failure error, ended bool) {
	for {
		select {
		case message := <-heard:
			switch m := message.(type) {
			case *begun:
				if m.err == nil {
					return nil, false
				}
				return startErrorOf(m.err, runner), runner.Pid() == 0
			case *gone:
				return &StartError{Why: withStderr(m.why(), m.stderr)}, true
			}
		case <-ctx.Done():
			return startErrorOf(context.Cause(ctx), runner), false
		}
	}
}

// startErrorOf adds to a failed start what the program wrote last.
func startErrorOf(err error, runner Runner) *StartError {
	var own *StartError
	answered := errors.As(err, &own)
	if !answered {
		own = &StartError{Why: err.Error()}
	}
	why := own.Why
	if talker, ok := runner.(interface{ Stderr() string }); ok {
		stderr := talker.Stderr()
		if answered {
			stderr = withoutNotes(stderr)
		}
		why = withStderr(why, stderr)
	}
	return &StartError{Why: why, Traceback: own.Traceback}
}

// loadNote begins the lines in which the SDKs note what they load. They name it where the program ends in the middle of that; an answered error
// has the name.
const loadNote = "troupe_worker: loads "

// withoutNotes leaves out what the SDKs have noted.
func withoutNotes(stderr string) string {
	if !strings.Contains(stderr, loadNote) {
		return stderr
	}
	lines := slices.DeleteFunc(strings.Split(stderr, "\n"), func(line string) bool { return strings.HasPrefix(line, loadNote) })
	return strings.Join(lines, "\n")
}

func withStderr(why, stderr string) string {
	if stderr == "" {
		return why
	}
	return fmt.Sprintf("%s; stderr: %s", why, stderr)
}

// trialEnd bounds the wait for the end of a program that was killed.
const trialEnd = 10 * time.Second

// endTrial takes the program down by the ladder of every worker, and waits for its end.
func endTrial(runner Runner, heard <-chan any, frames bool, graces process.Graces) {
	ladder := process.StopWorker(process.Target{}, time.Now(), frames, graces)
	last := time.Now().Add(graces.Shutdown + graces.Terminate + trialEnd)
	for {
		var step process.Step
		if step, ladder = ladder.Next(time.Now()); step != process.StepNone {
			runner.Step(step, nil)
		}
		due, more := ladder.Due()
		if !more {
			due = last
		}
		select {
		case message := <-heard:
			if _, over := message.(*gone); over {
				return
			}
			if m, answer := message.(*begun); answer && m.err != nil && runner.Pid() == 0 {
				return // it could not even be started
			}
		case <-time.After(time.Until(due)):
			if !more {
				return
			}
		}
	}
}
