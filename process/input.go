package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// queueMax is how many frames may wait for a program that does not read.
const queueMax = 256

// Reasons for which a frame is not sent.
var (
	ErrNotFramed   = errors.New("the program has no frame pipes")
	ErrInputClosed = errors.New("the request pipe is closed")
	ErrQueueFull   = errors.New("the program does not read its requests and the queue is full")
	ErrTooLarge    = errors.New("the frame is too large")
)

// input writes request frames. A frame goes into the pipe at once while the pipe has room. Otherwise it waits in a
// queue that a goroutine writes. There is no write deadline: a program with one thread does not read while it runs. The
// queue is bounded, so a program that never reads blocks no caller.
type input struct {
	file *os.File
	raw  syscall.RawConn
	max  int // bytes of a frame's payload

	mu      sync.Mutex
	id      uint64
	buf     []byte
	queue   [][]byte
	queued  int  // bytes in queue
	writing bool // a goroutine writes the queue
	closing bool // close once the queue is empty
	failed  bool // a write to the pipe has failed
}

func newInput(fd, limit int) (*input, error) {
	file, err := pollable(fd, "requests")
	if err != nil {
		return nil, err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &input{file: file, raw: raw, max: limit}, nil
}

// send gives the frame its id and writes or queues it.
func (in *input) send(command string, args any) (uint64, error) {
	encoded := []byte("{}")
	if args != nil {
		var err error
		if encoded, err = json.Marshal(args); err != nil {
			return 0, fmt.Errorf("encode arguments: %w", err)
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closing || in.failed {
		return 0, ErrInputClosed
	}
	frame, err := appendRequest(in.buf[:0], in.id+1, command, encoded)
	if err != nil {
		return 0, err
	}
	if size := len(frame) - headerLen; size > in.max {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, in.max)
	}
	if in.buf = frame; cap(frame) > readBuffer {
		in.buf = nil
	}
	if err := in.put(frame); err != nil {
		return 0, err
	}
	in.id++
	return in.id, nil
}

// put writes as much as the pipe takes at once and queues the rest.
func (in *input) put(frame []byte) error {
	if in.writing {
		if len(in.queue) >= queueMax || in.queued+len(frame) > 2*in.max {
			return fmt.Errorf("%w: %d frames of %d bytes wait", ErrQueueFull, len(in.queue), in.queued)
		}
	} else {
		n, err := in.tryWrite(frame)
		if err != nil {
			in.failed = true
			return ErrInputClosed
		}
		if n == len(frame) {
			return nil
		}
		frame = frame[n:]
		in.writing = true
		defer func() { go in.empty() }()
	}
	in.queue = append(in.queue, append([]byte(nil), frame...))
	in.queued += len(frame)
	return nil
}

// tryWrite writes once without waiting.
func (in *input) tryWrite(frame []byte) (n int, err error) {
	var failure error
	if err = in.raw.Write(func(fd uintptr) bool {
		for {
			n, failure = unix.Write(int(fd), frame)
			if failure != unix.EINTR {
				return true
			}
		}
	}); err != nil {
		return 0, err
	}
	if failure == unix.EAGAIN {
		return 0, nil
	}
	return max(n, 0), failure
}

// empty writes the queue until it is empty or a write fails.
func (in *input) empty() {
	for {
		frame, ok := in.head()
		if !ok {
			return
		}
		if _, err := in.file.Write(frame); err != nil {
			in.fail()
			return
		}
	}
}

// head takes the next frame from the queue. If there is none, the goroutine ends, and closes the pipe if close was
// called.
func (in *input) head() ([]byte, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue) == 0 {
		in.writing, in.queue = false, nil
		if in.closing {
			_ = in.file.Close()
		}
		return nil, false
	}
	frame := in.queue[0]
	in.queue = in.queue[1:]
	in.queued -= len(frame)
	return frame, true
}

func (in *input) fail() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.failed, in.writing, in.queue, in.queued = true, false, nil, 0
	_ = in.file.Close()
}

// close closes the pipe after the queued frames.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closing = true
	if !in.writing {
		_ = in.file.Close()
	}
}

// abort closes the pipe at once, which also ends the goroutine.
func (in *input) abort() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closing = true
	_ = in.file.Close()
}

func (in *input) isClosed() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.closing
}
