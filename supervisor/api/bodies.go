package api

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// What is counted of a request's body beside its bytes, for what the node makes of it.
const (
	bodyStep  = 4 << 10 // bytes are counted in steps of this size, as they arrive
	entryCost = 512     // of an entry of a batch
	labelCost = 64      // of a label of such an entry
)

// roomTime bounds how long the first of the batches waits for room.
const roomTime = 10 * time.Second

// bodies counts the bytes of all request bodies that the node holds, up to max. Where there is no room, a request is refused; of
// the batches the first that finds none waits for it instead. So batches that come at once do not all end half read.
type bodies struct {
	max int64

	mu    sync.Mutex
	now   int64
	first *holding      // that waits, or has waited
	given chan struct{} // closed when bytes are given back
}

// take adds n bytes to what a request holds, unless fewer than its spare would be left, and then says what to wait for: nil: for
// nothing.
func (b *bodies) take(h *holding, n int64) (taken bool, wait <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.now+n <= b.max-h.spare:
		b.now += n
		h.taken += n
		return true, nil
	case h.spare == 0 || h.taken+n > b.max-h.spare || b.first != nil && b.first != h:
		return false, nil
	}
	b.first = h
	if b.given == nil {
		b.given = make(chan struct{})
	}
	return false, b.given
}

// give takes back all that a request holds.
func (b *bodies) give(h *holding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now -= h.taken
	h.taken, h.used = 0, 0
	if b.first == h {
		b.first = nil
	}
	if b.given != nil {
		close(b.given)
		b.given = nil
	}
}

func (b *bodies) full() *Problem {
	return problemf(http.StatusTooManyRequests, CodeTooManyRequests,
		"the request bodies in flight fill the %d bytes that this node has for them (limits.bodies); try again, or send less at once", b.max)
}

// holding is what one request holds of the node's bodies.
type holding struct {
	of    *bodies
	spare int64 // that this request has to leave to others; 0: it is none that waits
	taken int64
	used  int64
	left  <-chan struct{} // closed once the caller is known to have left, and when the node stops; nil: never
}

// add counts n bytes more, or says that there is no room for them.
func (h *holding) add(n int64) error {
	h.used += n
	if h.used <= h.taken {
		return nil
	}
	more := (h.used - h.taken + bodyStep - 1) / bodyStep * bodyStep
	var over <-chan time.Time
	for {
		taken, wait := h.of.take(h, more)
		if taken {
			return nil
		}
		if wait == nil {
			return h.of.full()
		}
		if over == nil {
			over = time.After(roomTime)
		}
		select {
		case <-wait:
		case <-over:
			return h.of.full()
		case <-h.left:
			return stops()
		}
	}
}

// release gives everything back. It may be called again.
func (h *holding) release() { h.of.give(h) }

// errPart ends the reading of a part of a body that is larger than it may be.
var errPart = errors.New("a part of the body is too large")

// bodyReader reads a request's body up to a limit, and counts its bytes as they arrive. Its errors are *Problem, io.EOF and
// errPart.
type bodyReader struct {
	from io.Reader
	hold *holding
	max  int64
	read int64
	part int64 // errPart ends the reading here
	err  error
}

func (b *bodyReader) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.read >= b.part {
		return 0, errPart
	}
	if room := b.max + 1 - b.read; int64(len(p)) > room {
		p = p[:room]
	}
	n, err := b.from.Read(p)
	b.read += int64(n)
	switch {
	case b.read > b.max:
		b.err = tooLarge(b.max)
	case err != nil && !errors.Is(err, io.EOF):
		b.err = problemf(http.StatusBadRequest, CodeInvalidRequest, "the body ended before its time: send it whole, and without long pauses")
	default:
		b.err = err
		if full := b.hold.add(int64(n)); full != nil {
			b.err = full
		}
	}
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		return 0, b.err
	}
	return n, b.err
}
