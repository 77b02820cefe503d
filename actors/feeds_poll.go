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
	Events []messages.RunEvent
	Next   Poll // to go on from
	More   bool // there is more already
	Ended  bool // the run has ended, and nothing is left
	// Lost is how many events before these were dropped unread, and StdoutCut and StderrCut say whether bytes of a stream may be among them.
	Lost                 uint64
	StdoutCut, StderrCut bool
}

// Poll returns what was seen of an execution from a place on. It takes events while take says that they fit. A feed that
// has not begun is waited for, and one that ends is kept, for those that poll: long enough for their next look. Another
// feed than the reader's is read from its beginning, once the reader's own is gone.
func (s *Feeds) Poll(id messages.ExecutionID, at Poll, take func(*messages.RunEvent) bool) Polled {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sweep(now)
	f := s.polled(id, at.Feed)
	if f == nil {
		return Polled{Next: at}
	}
	f.polled = now
	next := 0
	if f.number == at.Feed {
		next = int(min(at.From, uint64(f.first+len(f.events))))
	}
	p := Polled{}
	if next < f.first {
		p.Lost, p.StdoutCut, p.StderrCut = uint64(f.first-next), f.cut.stdout, f.cut.stderr
		next = f.first
	}
	for ; next < f.first+len(f.events) && take(&f.events[next-f.first]); next++ {
		p.Events = append(p.Events, f.events[next-f.first])
	}
	p.Next = Poll{Feed: f.number, From: uint64(next)}
	p.More = next < f.first+len(f.events)
	p.Ended = f.closed && !p.More
	return p
}

// Await keeps an execution's feed for a moment, from before it begins until behind its end, without reading it.
func (s *Feeds) Await(id messages.ExecutionID) {
	s.Poll(id, Poll{}, func(*messages.RunEvent) bool { return false })
}

// polled is the feed that a reader wants: its own while that is known, else the execution's present one, or a new one; nil:
// too many are waited for.
func (s *Feeds) polled(id messages.ExecutionID, number uint64) *feed {
	present := s.feeds[id]
	if present != nil && present.number == number {
		return present
	}
	if i := slices.IndexFunc(s.ended, func(f *feed) bool { return f.id == id && f.number == number }); i >= 0 {
		return s.ended[i]
	}
	if present != nil || len(s.early) >= earlyMax {
		return present
	}
	f := s.feed(id)
	s.early = append(s.early, f)
	return f
}

// linger keeps a feed that has ended for those that poll it.
func (s *Feeds) linger(f *feed, now time.Time) {
	if now.Sub(f.polled) < lingerTime {
		f.over = now.Add(lingerTime)
		s.ended = append(s.ended, f)
	}
	s.sweep(now)
}

// sweep drops what was kept long enough.
func (s *Feeds) sweep(now time.Time) {
	for len(s.ended) > 0 && (len(s.ended) > lingerMax || now.After(s.ended[0].over)) {
		s.ended[0] = nil
		s.ended = s.ended[1:]
	}
	s.early = slices.DeleteFunc(s.early, func(f *feed) bool {
		begun := f.closed || f.first+len(f.events) > 0
		if !begun && (f.read > 0 || now.Sub(f.polled) < lingerTime) {
			return false
		}
		if !begun && s.feeds[f.id] == f {
			delete(s.feeds, f.id)
		}
		return true
	})
}
