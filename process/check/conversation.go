package check

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/troupe-run/troupe/process"
)

type launcher = process.Launcher

const (
	eventsMax = 4096            // events that wait to be read; a check sends few requests, so more is a flood
	outputMax = 4 << 10         // bytes kept of the program's standard output
	endTime   = 5 * time.Second // how long a killed program may take to be reaped
)

// conversation is one run of the program. Only one goroutine uses it. Events arrive through a channel, because the
// launcher's sink must not block.
type conversation struct {
	process process.Process
	events  chan process.Event
	flood   chan struct{} // closed when events came faster than they were read

	sent    map[uint64]string // command by id
	replies map[uint64]int    // answers by id
	got     map[uint64]process.Reply
	strays  []string // progress, chunks and logs of no running execute
	stdout  []byte
	broken  string
	exited  *process.Exit
}

func start(ctx context.Context, l launcher, argv []string, opts Options) (*conversation, error) {
	t := &conversation{
		events: make(chan process.Event, eventsMax), flood: make(chan struct{}),
		sent: map[uint64]string{}, replies: map[uint64]int{}, got: map[uint64]process.Reply{},
	}
	flooded := false
	sink := func(e process.Event) {
		select {
		case t.events <- e:
		default:
			if !flooded {
				flooded = true
				close(t.flood)
			}
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	t.process, err = l.Start(ctx, process.Spec{Argv: argv, Dir: dir, Env: environment(opts.Env), Framed: true}, sink)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return t, nil
}

// environment is the environment of a node's worker, with enough of this process's own environment to find an
// interpreter.
func environment(added []string) []string {
	env := []string{"TROUPE_PROTOCOL=1", "TROUPE_WORKER=check/check/0", "TROUPE_POOL=check", "TROUPE_GENERATION=1",
		"TROUPE_INCARNATION=00000000-0000-7000-8000-000000000000"}
	for _, name := range []string{"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, added...)
}

func (t *conversation) alive() bool { return t.exited == nil && t.broken == "" }

// send writes one request.
func (t *conversation) send(command string, args any) (uint64, error) {
	id, err := t.process.Send(command, args)
	if err != nil {
		return 0, fmt.Errorf("send %s: %w", command, err)
	}
	t.sent[id] = command
	return id, nil
}

// ask sends one request and waits for its answer.
func (t *conversation) ask(ctx context.Context, command string, args any, within time.Duration) (process.Reply, error) {
	id, err := t.send(command, args)
	if err != nil {
		return process.Reply{}, err
	}
	return t.answer(ctx, id, within)
}

// answer waits for the answer to the request id.
func (t *conversation) answer(ctx context.Context, id uint64, within time.Duration) (process.Reply, error) {
	err := t.wait(ctx, within, func() bool { return t.replies[id] > 0 })
	if err != nil && t.replies[id] == 0 {
		return process.Reply{}, fmt.Errorf("no answer to %s (id %d): %w", t.sent[id], id, err)
	}
	return t.got[id], nil
}

// wait takes events until done returns true. It returns an error when the time is up or no event can come any more.
func (t *conversation) wait(ctx context.Context, within time.Duration, done func() bool) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for !done() {
		if t.exited != nil {
			return t.why()
		}
		select {
		case e := <-t.events:
			t.take(e)
		case <-t.flood:
			return fmt.Errorf("more than %d events came at once", eventsMax)
		case <-timer.C:
			return fmt.Errorf("nothing within %s", within)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// why returns an error that says how the program ended.
func (t *conversation) why() error {
	if t.broken != "" {
		return fmt.Errorf("protocol error: %s", t.broken)
	}
	end := fmt.Sprintf("exit status %d", t.exited.Code)
	if t.exited.Signal != "" {
		end = t.exited.Signal
	}
	if tail := strings.TrimSpace(t.process.StderrTail()); tail != "" {
		end += ": " + tail[max(0, len(tail)-300):]
	}
	return fmt.Errorf("the program ended (%s)", end)
}

// take records one event.
func (t *conversation) take(e process.Event) {
	switch e := e.(type) {
	case process.Reply:
		t.replies[e.ID]++
		t.got[e.ID] = e
	case process.Progress:
		t.sign("progress", e.ID)
	case process.Chunk:
		t.sign("chunk", e.ID)
	case process.Log:
		if e.ID != 0 {
			t.sign("log", e.ID)
		}
	case process.Fault: // of no request; hello said that it is taken
	case process.Wrote:
		if !e.Stderr && len(t.stdout) < outputMax {
			t.stdout = append(t.stdout, e.Data[:min(len(e.Data), outputMax)]...)
		}
	case process.Broken:
		t.broken = e.Reason
	case process.Exited:
		t.exited = &e.Exit
	}
}

// sign records an event that belongs to no running execute.
func (t *conversation) sign(event string, id uint64) {
	if t.sent[id] != "execute" || t.replies[id] > 0 {
		t.strays = append(t.strays, fmt.Sprintf("a %s event with id %d, which is no running execute", event, id))
	}
}

// framesOnStdout reports whether standard output begins like a frame: a length and an event.
func (t *conversation) framesOnStdout() bool {
	return len(t.stdout) > 4 && t.stdout[0] <= 1 && t.stdout[4] == '{' && bytes.Contains(t.stdout, []byte(`"event"`))
}

// end takes the remaining events, then makes sure that the program has ended. It does not use the caller's context, so
// that it ends the program even when that context is done.
func (t *conversation) end() {
	ctx := context.Background()
	_ = t.wait(ctx, settle, func() bool { return false }) // always ends with a timeout
	t.process.Kill()
	_ = t.wait(ctx, endTime, func() bool { return t.exited != nil }) // the launcher reports a program that cannot be reaped
}
