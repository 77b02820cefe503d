package api

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// What a request's body counts in addition to its bytes, for the memory of its decoded form.
const (
	bodyStep  = 4 << 10 // bytes are counted in steps of this size, as they arrive
	entryCost = 512     // for an entry of a batch
	labelCost = 64      // for a label of such an entry
)

// roomTime bounds how long the first waiting batch waits for room.
const roomTime = 10 * time.Second

// largestBatch is the largest count of a batch. A single batch always finds room if the node's bounds allow it.
const largestBatch = BatchBodyMax + messages.BatchMax*entryCost

// bodies counts the bytes of all request bodies in the node's memory, up to max. The batches of one token share a part
// of the room for batches. A request is refused where there is no room. But the first batch without room waits, and so
// does the first batch of each token without room in the token's share. So simultaneous batches do not all fail half
// read.
type bodies struct {
	max int64

	mu     sync.Mutex
	now    int64
	first  *holding            // the batch that waits or has waited
	shares map[string]*portion // by name, of tokens with batches in memory
	given  chan struct{}       // closed when bytes are given back
}

// portion is the part of the batches of one token.
type portion struct {
	now   int64
	first *holding // the batch that waits or has waited for its token's share
}

// share returns how much the batches of one token may hold together: half of the room for batches, or one largest batch
// if that is more.
func share(part int64) int64 { return max(part/2, min(part, largestBatch)) }

// take adds n bytes to a request's holding. It refuses if less than the request's spare would be left, or if its token
// would exceed its share. It then returns a channel to wait for, or nil if the request must not wait.
func (b *bodies) take(h *holding, n int64) (taken bool, wait <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	part := b.max - h.spare
	first, most := &b.first, part
	own := b.portion(h)
	if own != nil && own.now+n > share(part) {
		first, most = &own.first, share(part)
	} else if b.now+n <= part {
		b.now += n
		h.taken += n
		if own != nil {
			own.now += n
		}
		return true, nil
	}
	h.crowded = most < part
	if h.spare == 0 || h.taken+n > most || *first != nil && *first != h {
		return false, nil
	}
	*first = h
	if b.given == nil {
		b.given = make(chan struct{})
	}
	return false, b.given
}

// portion returns the portion of a batch's token. It is nil for a request that is no batch or has no token.
func (b *bodies) portion(h *holding) *portion {
	if h.caller == "" || h.spare == 0 {
		return nil
	}
	p := b.shares[h.caller]
	if p == nil {
		if b.shares == nil {
			b.shares = map[string]*portion{}
		}
		p = &portion{}
		b.shares[h.caller] = p
	}
	return p
}

// give releases all bytes of a request.
func (b *bodies) give(h *holding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own := b.shares[h.caller]; own != nil && h.spare > 0 {
		own.now -= h.taken
		if own.first == h {
			own.first = nil
		}
		if own.now == 0 && own.first == nil {
			delete(b.shares, h.caller)
		}
	}
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

func (b *bodies) full(h *holding) *messages.Problem {
	if h.crowded {
		return messages.Problemf(messages.CodeTooManyRequests,
			"the batches in flight of token %q fill the %d bytes that this node has for those of one token (limits.bodies); try again, or send less at once",
			h.caller, share(b.max-h.spare))
	}
	return messages.Problemf(messages.CodeTooManyRequests,
		"the request bodies in flight fill the %d bytes that this node has for them (limits.bodies); try again, or send less at once", b.max)
}

// holding is one request's part of the bytes in bodies.
type holding struct {
	of    *bodies
	spare int64 // bytes that this request must leave to others; 0: it never waits
	// caller is the name of its token; empty: the node has no tokens.
	caller  string
	crowded bool // its token's share had no room
	taken   int64
	used    int64
	left    <-chan struct{} // closed when the caller has left or the node stops; nil: never
}

// add counts n more bytes, or returns an error if there is no room for them.
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
			return h.of.full(h)
		}
		if over == nil {
			over = time.After(roomTime)
		}
		select {
		case <-wait:
		case <-over:
			return h.of.full(h)
		case <-h.left:
			return stops()
		}
	}
}

// release releases all bytes. It may be called again.
func (h *holding) release() { h.of.give(h) }

// errPart ends the reading of a part of a body that is too large.
var errPart = errors.New("a part of the body is too large")

// bodyReader reads a request's body up to a limit, and counts its bytes as they arrive. Its errors are *messages.Problem, io.EOF and
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
		b.err = messages.Problemf(messages.CodeInvalidRequest, "the body ended before its time: send it whole, and without long pauses")
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
