package actors

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/mask"
)

// launcher starts programs that do what the test says.
type launcher struct {
	mu      sync.Mutex
	started []*puppet
	refuse  error
	begin   func(*puppet)                              // called before Start returns
	answer  func(p *puppet, command string, id uint64) // called on each request, in a goroutine of its own
}

func (l *launcher) Start(_ context.Context, spec process.Spec, sink func(process.Event)) (process.Process, error) {
	if l.refuse != nil {
		return nil, l.refuse
	}
	p := &puppet{launcher: l, spec: spec, sink: sink, vitals: 'S'}
	l.mu.Lock()
	l.started = append(l.started, p)
	l.mu.Unlock()
	if l.begin != nil {
		l.begin(p)
	}
	return p, nil
}

func (l *launcher) puppet(t *testing.T) *puppet {
	t.Helper()
	return l.puppetAt(t, 0)
}

// puppetAt is the n-th program, from 0.
func (l *launcher) puppetAt(t *testing.T, n int) *puppet {
	t.Helper()
	soon(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.started) > n }, "a program must be started")
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started[n]
}

// request is one frame that a puppet got.
type request struct {
	command string
	id      uint64
	args    any
}

// puppet is a program without a process.
type puppet struct {
	launcher *launcher
	spec     process.Spec
	sink     func(process.Event)

	mu         sync.Mutex
	requests   []request
	deaf       error // what Send returns
	terminated int
	killed     int
	closed     bool
	vitals     byte
	out        messages.Output
	tail       string
	masks      *mask.Set // of the run
}

func (p *puppet) Pid() int { return 99 }

func (p *puppet) Send(command string, args any) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf != nil {
		return 0, p.deaf
	}
	id := uint64(len(p.requests) + 1)
	p.requests = append(p.requests, request{command, id, args})
	if answer := p.launcher.answer; answer != nil {
		go answer(p, command, id)
	}
	return id, nil
}

func (p *puppet) count(counter *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*counter++
}

func (p *puppet) Terminate() { p.count(&p.terminated) }
func (p *puppet) Kill()      { p.count(&p.killed) }

func (p *puppet) CloseInput() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

func (p *puppet) TakeOutput() messages.Output {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.out
	p.out = messages.Output{}
	return out
}

func (p *puppet) Mask(run *mask.Set) { p.set(func() { p.masks = run }) }

func (p *puppet) ClearOutput() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out, p.tail = messages.Output{}, ""
}

func (p *puppet) StderrTail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tail
}

func (p *puppet) Vitals() (process.Vitals, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return process.Vitals{State: p.vitals}, nil
}

// asked waits for the n-th request of a command, from 1.
func (p *puppet) asked(t *testing.T, command string, n int) request {
	t.Helper()
	var found request
	soon(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		left := n
		for _, r := range p.requests {
			if r.command == command {
				if left--; left == 0 {
					found = r
					return true
				}
			}
		}
		return false
	}, "the program must be asked to "+command)
	return found
}

func (p *puppet) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// exits ends the program.
func (p *puppet) exits(code int) {
	p.sink(process.Exited{Exit: process.Exit{Code: code, Cause: process.CauseExit}})
}

// inbox takes what a runner posts.
type inbox struct {
	mu   sync.Mutex
	list []any
}

func (i *inbox) post(message any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list = append(i.list, message)
}

// posted returns what was posted of one type.
func posted[T any](i *inbox) []T {
	i.mu.Lock()
	defer i.mu.Unlock()
	var got []T
	for _, m := range i.list {
		if v, ok := m.(T); ok {
			got = append(got, v)
		}
	}
	return got
}

// next waits for the n-th post of one type, from 1.
func next[T any](t *testing.T, i *inbox, n int) T {
	t.Helper()
	soon(t, func() bool { return len(posted[T](i)) >= n }, "the runner must post it")
	return posted[T](i)[n-1]
}

// backstage is a configuration of workers without a tree, for a runner alone.
func backstage() *WorkerConfig {
	return &WorkerConfig{
		PoolName: "pool", Incarnation: messages.NewIncarnation(),
		Logger: hclog.NewNullLogger(), Feeds: NewFeeds(),
	}
}

// aRun is a run of an action.
func aRun(change func(*messages.Execution, *messages.Action)) *Run {
	e := &messages.Execution{ID: messages.NewExecutionID(), Action: "act", Attempt: 1}
	a := &messages.Action{Ref: "act", Entrypoint: "f", Command: []string{"cmd"}}
	if change != nil {
		change(e, a)
	}
	return &Run{Execution: e, Action: a}
}

var errDeaf = errors.New("deaf")
