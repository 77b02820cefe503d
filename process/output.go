package process

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/rules/mask"
)

const (
	tailMax     = 8 << 10
	readChunk   = 64 << 10 // a pipe's capacity
	drainRounds = 64       // reads in one drain, so that a drain ends even if the program writes for ever
)

// chunks holds the buffers for reads. A read takes one only while it has bytes.
var chunks = sync.Pool{New: func() any { return new([readChunk]byte) }}

// stream captures one of a program's output pipes.
type stream struct {
	file   *os.File
	raw    syscall.RawConn
	stderr bool
	max    int

	mu      sync.Mutex
	kept    []byte // bytes since the last take, at most max
	cut     bool   // more than max came since the last take
	pending []byte // kept, but not reported yet
	tail    []byte // the last bytes; stderr only
	masks   mask.Stream
	run     mask.Stream // behind masks, for secrets of the run
}

func newStream(fd int, stderr bool, limit int, masks, run *mask.Set) (*stream, error) {
	file, err := pollable(fd, "output")
	if err != nil {
		return nil, err
	}
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &stream{file: file, raw: raw, stderr: stderr, max: limit, masks: masks.Stream(), run: run.Stream()}, nil
}

// pollable makes a descriptor non-blocking and registers it with the poller, so that deadlines work on it.
func pollable(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("set nonblock", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// wait blocks until bytes have been captured. It returns false when the pipe has ended or been closed.
func (s *stream) wait() bool {
	more := false
	err := s.raw.Read(func(fd uintptr) bool {
		n, err := s.capture(int(fd))
		more = n > 0
		return !errors.Is(err, unix.EAGAIN)
	})
	return err == nil && more
}

// drain captures what the program has written so far, with bytes held back because they may begin a secret. It does not
// wait for more.
func (s *stream) drain() {
	_ = s.raw.Control(func(fd uintptr) {
		for range drainRounds {
			if n, _ := s.capture(int(fd)); n <= 0 {
				return
			}
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(s.run.Write(s.masks.Pause()))
	s.keep(s.run.Pause())
}

// end keeps the bytes that were held back because they may begin a secret: no more bytes follow.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(s.run.Write(s.masks.End()))
	s.keep(s.run.End())
}

// mask replaces the secrets of another run from now on.
func (s *stream) mask(run *mask.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(s.run.End())
	s.run = run.Stream()
}

// capture reads once. It holds the lock during the read, so that bytes stay in order when several goroutines read.
func (s *stream) capture(fd int) (int, error) {
	chunk := chunks.Get().(*[readChunk]byte)
	defer chunks.Put(chunk)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		n, err := unix.Read(fd, chunk[:])
		if err == unix.EINTR {
			continue
		}
		if n > 0 {
			s.keep(s.run.Write(s.masks.Write(chunk[:n])))
		}
		return n, err
	}
}

func (s *stream) keep(data []byte) {
	if s.stderr {
		s.tail = append(s.tail, data...)
		if len(s.tail) > tailMax {
			s.tail = append(s.tail[:0], s.tail[len(s.tail)-tailMax:]...)
		}
	}
	room := s.max - len(s.kept)
	if len(data) > room {
		data, s.cut = data[:room], true
	}
	s.kept = append(s.kept, data...)
	s.pending = append(s.pending, data...)
}

// report returns the kept bytes that were not reported yet.
func (s *stream) report() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	data := s.pending
	s.pending = nil
	return data
}

// take returns the kept bytes and counts the bound anew.
func (s *stream) take() (data []byte, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, cut = s.kept, s.cut
	s.kept, s.cut = nil, false
	return data, cut
}

// clear drops all output so far, also the bytes that are still in the pipe.
func (s *stream) clear() {
	s.drain()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept, s.cut, s.pending, s.tail = nil, false, nil, nil
	s.masks.Drop()
	s.run.Drop()
}

func (s *stream) lastBytes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.tail)
}
