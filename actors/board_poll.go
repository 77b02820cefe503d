package actors

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Poll is where a reader that polls stands: at an entry of a feed. Zero: at the beginning of whatever feed there is.
type Poll struct{ Feed, From uint64 }

// Polled is what a look at a feed gave.
type Polled struct {
	Events []Happening
	Next   Poll // to go on from
	More   bool // there is more already
	Ended  bool // the run has ended, and nothing is left
}

// Poll returns what was seen of an execution from a place on. It takes events while take says that they fit. A feed that
// has not begun is waited for, and one that ends is kept, for those that poll: long enough for their next look. Another
// feed than the reader's is read from its beginning, once the reader's own is gone.
func (b *Board) Poll(id messages.ExecutionID, at Poll, take func(*Happening) bool) Polled {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.sweep(now)
	f := b.polled(id, at.Feed)
	if f == nil {
		return Polled{Next: at}
	}
	f.polled = now
	next := f.first
	if f.number == at.Feed {
		next = max(next, int(min(at.From, uint64(f.first+len(f.events)))))
	}
	p := Polled{}
	for ; next < f.first+len(f.events) && take(&f.events[next-f.first]); next++ {
		p.Events = append(p.Events, f.events[next-f.first])
	}
	p.Next = Poll{Feed: f.number, From: uint64(next)}
	p.More = next < f.first+len(f.events)
	p.Ended = f.closed && !p.More
	return p
}

// Await keeps an execution's feed for a moment, from before it begins until behind its end, without reading it.
func (b *Board) Await(id messages.ExecutionID) {
	b.Poll(id, Poll{}, func(*Happening) bool { return false })
}

// polled is the feed that a reader wants: its own while that is known, else the execution's present one, or a new one; nil:
// too many are waited for.
func (b *Board) polled(id messages.ExecutionID, number uint64) *feed {
	present := b.feeds[id]
	if present != nil && present.number == number {
		return present
	}
	if i := slices.IndexFunc(b.ended, func(f *feed) bool { return f.id == id && f.number == number }); i >= 0 {
		return b.ended[i]
	}
	if present != nil || len(b.early) >= earlyMax {
		return present
	}
	f := b.feed(id)
	b.early = append(b.early, f)
	return f
}

// linger keeps a feed that has ended for those that poll it.
func (b *Board) linger(f *feed, now time.Time) {
	if now.Sub(f.polled) < lingerTime {
		f.over = now.Add(lingerTime)
		b.ended = append(b.ended, f)
	}
	b.sweep(now)
}

// sweep drops what was kept long enough.
func (b *Board) sweep(now time.Time) {
	for len(b.ended) > 0 && (len(b.ended) > lingerMax || now.After(b.ended[0].over)) {
		b.ended[0] = nil
		b.ended = b.ended[1:]
	}
	b.early = slices.DeleteFunc(b.early, func(f *feed) bool {
		begun := f.closed || f.first+len(f.events) > 0
		if !begun && (f.read > 0 || now.Sub(f.polled) < lingerTime) {
			return false
		}
		if !begun && b.feeds[f.id] == f {
			delete(b.feeds, f.id)
		}
		return true
	})
}
