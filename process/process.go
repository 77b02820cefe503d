package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/mask"
)

const (
	// drainTime is how long Exited waits for output pipes that a descendant still holds open.
	drainTime = 300 * time.Millisecond
	// drainMax is how much longer it waits for events that are in the pipe and not read yet. It looks every drainLook.
	drainMax, drainLook = 2 * time.Second, 5 * time.Millisecond
	// closeGrace is how long a program may live after it closed its event pipe.
	closeGrace = time.Second
	// pipeRoom is how many bytes fit into a pipe while nobody reads it.
	pipeRoom = 64 << 10
)

// program is the node's side of one running program.
type program struct {
	link  *link
	seq   uint64
	spec  Spec
	begun chan error // gets nil once the program runs, or the error of the start
	pid   atomic.Int64
	held  atomic.Uint64 // what the kernel enforces by its group, as leaf.held's bits

	stdin    *os.File // the rest of Spec.Stdin is written here; nil when all of it is in the pipe
	input    *input   // nil unless framed
	frames   *os.File // nil unless framed
	out, err *stream
	masks    atomic.Pointer[mask.Set] // of the run

	sinkMu  sync.Mutex // one event at a time
	sink    func(Event)
	readers sync.WaitGroup
	ended   chan struct{} // closed when the program is known to have ended
	asked   atomic.Pointer[Cause]
}

// newProgram makes the pipes. theirs are the program's ends, in the order of its descriptors.
func newProgram(l *link, spec Spec, sink func(Event)) (p *program, theirs []int, err error) {
	spec = spec.withDefaults()
	p = &program{link: l, spec: spec, sink: sink, begun: make(chan error, 1), ended: make(chan struct{})}
	p.masks.Store(spec.RunMasks)
	defer func() {
		if err != nil {
			closeAll(theirs)
			p.release()
			p, theirs, err = nil, nil, fmt.Errorf("make pipes: %w", err)
		}
	}()
	if spec.Stdin != nil {
		if theirs, err = p.makeStdin(theirs); err != nil {
			return p, theirs, err
		}
	}
	if theirs, err = p.makeOutput(theirs); err != nil {
		return p, theirs, err
	}
	if spec.Framed {
		if theirs, err = p.makeFrames(theirs); err != nil {
			return p, theirs, err
		}
	}
	return p, theirs, giveTo(spec.User, theirs)
}

func (s Spec) withDefaults() Spec {
	if s.Dir == "" {
		s.Dir = "/"
	}
	if s.OutputMax == 0 {
		s.OutputMax = messages.OutputMax
	}
	s.StdoutMax = max(s.StdoutMax, s.OutputMax)
	if s.FrameMax == 0 {
		s.FrameMax = messages.FrameMax
	}
	s.Env = lastOnes(s.Env)
	return s
}

// newPipe returns both ends. They are blocking and close on exec.
func newPipe() (read, write int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return 0, 0, err
	}
	return fds[0], fds[1], nil
}

// makeStdin writes the input into the pipe at once when it fits, which saves a goroutine.
func (p *program) makeStdin(theirs []int) ([]int, error) {
	read, write, err := newPipe()
	if err != nil {
		return theirs, err
	}
	theirs = append(theirs, read)
	if len(p.spec.Stdin) > pipeRoom {
		p.stdin, err = pollable(write, "stdin")
		return theirs, err
	}
	_, err = unix.Write(write, p.spec.Stdin)
	return theirs, errors.Join(err, unix.Close(write))
}

func (p *program) makeOutput(theirs []int) ([]int, error) {
	for _, end := range []struct {
		to     **stream
		stderr bool
		max    int
	}{{&p.out, false, p.spec.StdoutMax}, {&p.err, true, p.spec.OutputMax}} {
		read, write, err := newPipe()
		if err != nil {
			return theirs, err
		}
		theirs = append(theirs, write)
		if *end.to, err = newStream(read, end.stderr, end.max, p.spec.Masks, p.spec.RunMasks); err != nil {
			return theirs, err
		}
	}
	return theirs, nil
}

func (p *program) makeFrames(theirs []int) ([]int, error) {
	read, write, err := newPipe()
	if err != nil {
		return theirs, err
	}
	theirs = append(theirs, read)
	if p.input, err = newInput(write, p.spec.FrameMax); err != nil {
		return theirs, err
	}
	if read, write, err = newPipe(); err != nil {
		return theirs, err
	}
	theirs = append(theirs, write)
	p.frames, err = pollable(read, "events")
	return theirs, err
}

// release closes the node's ends of the pipes.
func (p *program) release() {
	if p.input != nil {
		p.input.abort()
	}
	for _, s := range []*stream{p.out, p.err} {
		if s != nil {
			_ = s.file.Close()
		}
	}
	for _, f := range []*os.File{p.stdin, p.frames} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// started begins to read. It runs on the goroutine that reads the guardian's packets, so it runs before exited.
func (p *program) started(pid int, held uint64) {
	p.held.Store(held)
	p.pid.Store(int64(pid))
	p.readers.Add(2)
	go p.readOutput(p.out)
	go p.readOutput(p.err)
	if p.frames != nil {
		p.readers.Add(1)
		go p.readFrames()
	}
	if p.stdin != nil {
		go p.writeStdin()
	}
	p.begun <- nil
}

// failed says that the program never ran.
func (p *program) failed(err error) {
	p.release()
	p.begun <- err
}

// abandon ends a program whose caller has gone. Nobody gets its events.
func (p *program) abandon() {
	p.sinkMu.Lock()
	p.sink = func(Event) {}
	p.sinkMu.Unlock()
	p.Kill()
}

// exited cleans up after a program that the guardian has reaped.
func (p *program) exited(x exitReport) {
	close(p.ended)
	exit := exitOf(x, evidence{asked: p.askedFor(), limit: p.spec.Limits.CPUTime, oom: p.oomKilled(x)})
	go p.finish(exit)
}

// lost cleans up after a program whose guardian is gone. All of its processes are dead, but how it ended is unknown.
func (p *program) lost(closing bool) {
	close(p.ended)
	exit := Exit{Code: -1, Cause: CauseGuardian, Lost: true}
	if closing {
		exit.Cause = CauseStopped
	}
	if p.Pid() == 0 {
		p.failed(errGuardianDied)
		return
	}
	go p.finish(exit)
}

// finish reports what is still in the pipes, then the end. It closes pipes that a descendant holds open.
func (p *program) finish(exit Exit) {
	timer := time.AfterFunc(drainTime, p.giveUp)
	p.readers.Wait()
	timer.Stop()
	p.release()
	p.emit(Exited{Exit: exit})
}

// giveUp closes the pipes after it has read what is left in them. There is something left if the node was stopped for a
// while.
func (p *program) giveUp() {
	p.out.drain()
	p.err.drain()
	for end := time.Now().Add(drainMax); p.frames != nil && unread(p.frames) > 0 && time.Now().Before(end); {
		time.Sleep(drainLook)
	}
	p.release()
}

// unread returns how many bytes are in a pipe; 0 if it is closed.
func unread(pipe *os.File) (n int) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return n
}

// emit passes one event to the sink, after all earlier output.
func (p *program) emit(e Event) {
	p.sinkMu.Lock()
	defer p.sinkMu.Unlock()
	p.reportOutput(p.out)
	p.reportOutput(p.err)
	if e != nil {
		p.sink(e)
	}
}

// reportOutput needs sinkMu.
func (p *program) reportOutput(s *stream) {
	if data := s.report(); len(data) > 0 {
		p.sink(Wrote{Stderr: s.stderr, Data: data})
	}
}

func (p *program) readOutput(s *stream) {
	defer p.readers.Done()
	for s.wait() {
		p.emit(nil)
	}
	s.end()
}

// readFrames turns frames into events until the pipe ends or the program breaks the protocol.
func (p *program) readFrames() {
	defer p.readers.Done()
	reader := newFrameReader(p.frames, p.spec.FrameMax)
	for {
		event, err := reader.event()
		if err != nil {
			p.framesEnded(err)
			return
		}
		if _, answer := event.(Reply); answer {
			// Output from before the answer belongs to the run that the answer ends.
			p.out.drain()
			p.err.drain()
		}
		p.emit(bounded(p.masked(event)))
	}
}

// framesEnded handles the end of the event pipe. The program is at fault if it broke the protocol, or if it lives on
// without the pipe though nobody stopped it.
func (p *program) framesEnded(err error) {
	var fault *brokenError
	switch {
	case errors.As(err, &fault):
	case errors.Is(err, io.EOF) && !p.endsWithin(closeGrace) && !p.input.isClosed():
		fault = &brokenError{"the program closed its event pipe and lives on"}
	default:
		return
	}
	if p.askedFor() != "" {
		return
	}
	p.emit(p.masked(Broken{Reason: fault.reason}))
	p.Kill()
}

func (p *program) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

func (p *program) writeStdin() {
	_, _ = p.stdin.Write(p.spec.Stdin) // fails if the program does not read its input
	_ = p.stdin.Close()
}

// ask records why Troupe ends the program. The first reason stands.
func (p *program) ask(why Cause) { p.asked.CompareAndSwap(nil, &why) }

func (p *program) askedFor() Cause {
	if why := p.asked.Load(); why != nil {
		return *why
	}
	return ""
}

func (p *program) killFor(why Cause) {
	p.ask(why)
	p.link.kill(p.seq)
}

// Pid implements Process.
func (p *program) Pid() int { return int(p.pid.Load()) }

// Send implements Process.
func (p *program) Send(command string, args any) (uint64, error) {
	if p.input == nil {
		return 0, fmt.Errorf("send %s: %w", command, ErrNotFramed)
	}
	id, err := p.input.send(command, args)
	if err != nil {
		return 0, fmt.Errorf("send %s to process %d: %w", command, p.Pid(), err)
	}
	return id, nil
}

// Terminate implements Process.
func (p *program) Terminate() {
	p.ask(CauseStopped)
	p.link.terminate(p.seq)
}

// Kill implements Process.
func (p *program) Kill() { p.killFor(CauseStopped) }

// CloseInput implements Process.
func (p *program) CloseInput() {
	if p.input != nil {
		p.input.close()
	}
}

// TakeOutput implements Process.
func (p *program) TakeOutput() messages.Output {
	var o messages.Output
	o.Stdout, o.StdoutCut = p.out.take()
	o.Stderr, o.ErrCut = p.err.take()
	return o
}

// ClearOutput implements Process.
func (p *program) ClearOutput() {
	p.out.clear()
	p.err.clear()
}

// Mask implements Process.
func (p *program) Mask(run *mask.Set) {
	p.masks.Store(run)
	p.out.mask(run)
	p.err.mask(run)
}

// masked replaces the secrets of the pool and of the run in an event.
func (p *program) masked(e Event) Event { return masked(p.masks.Load(), masked(p.spec.Masks, e)) }

// StderrTail implements Process.
func (p *program) StderrTail() string { return p.err.lastBytes() }
