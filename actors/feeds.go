package actors

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// feedBytesMax bounds what is kept of one execution's live events; older ones go first.
const feedBytesMax = 2 << 20

// Feeds carry the live events of running executions to whoever follows them. A feed begins with its run's first
// event and ends with the run; what a process wrote is in the store afterwards. One that somebody reads by polling stays
// for a moment behind its end.
type Feeds struct {
	mu    sync.Mutex
	feeds map[messages.ExecutionID]*feed
	ended []*feed // closed, and kept for those that poll; the oldest first
	early []*feed // that somebody polled before they began; the oldest first
	last  uint64  // number of the newest feed
}

type feed struct {
	number uint64 // of all feeds, from 1
	id     messages.ExecutionID
	events []messages.RunEvent
	first  int // number of events dropped before events[0]
	bytes  int
	cut    struct{ stdout, stderr bool } // bytes of the stream are among the dropped events
	record messages.OutputRecord
	closed bool
	wake   chan struct{} // closed and replaced at each change
	read   int           // followers
	polled time.Time     // when somebody polled last; zero: nobody has
	over   time.Time     // until when it is kept behind its end
}

// Bounds on feeds that are kept for those that poll, who ask several times a second.
const (
	lingerTime = 5 * time.Second // behind their end, or the last look at one that has not begun
	lingerMax  = 32              // feeds that have ended
	earlyMax   = 1024            // feeds that have not begun
)

// NewFeeds returns feeds of no execution.
func NewFeeds() *Feeds { return &Feeds{feeds: map[messages.ExecutionID]*feed{}} }

// Add appends an event to the execution's feed, and reports whether it is its first.
func (s *Feeds) Add(id messages.ExecutionID, e messages.RunEvent) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feed(id)
	first = f.first+len(f.events) == 0
	f.record.Add(&e)
	f.events = append(f.events, e)
	f.bytes += e.Size()
	for f.bytes > feedBytesMax && len(f.events) > 1 {
		f.drop()
	}
	f.notify()
	return first
}

// Record returns what the execution has said so far, as it is stored with its output.
func (s *Feeds) Record(id messages.ExecutionID) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.feeds[id]; ok {
		return f.record.Bytes()
	}
	return nil
}

// Close ends the execution's feed. Followers get what is left, then their end.
func (s *Feeds) Close(id messages.ExecutionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.feeds[id]; ok {
		f.closed = true
		f.notify()
		delete(s.feeds, id)
		s.linger(f, time.Now())
	}
}

// Output returns what the execution has written so far, as its feed kept it: of a stream that is cut, the end.
func (s *Feeds) Output(id messages.ExecutionID) messages.Output {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out messages.Output
	f, ok := s.feeds[id]
	if !ok {
		return out
	}
	out.StdoutCut, out.ErrCut = f.cut.stdout, f.cut.stderr
	for _, e := range f.events {
		switch e.Kind {
		case "stdout":
			out.Stdout = append(out.Stdout, e.Data...)
		case "stderr":
			out.Stderr = append(out.Stderr, e.Data...)
		}
	}
	return out
}

// Follow calls each for every event of the execution from the oldest kept, until the feed is closed, done says that
// the execution has its outcome, each fails, or ctx ends. A feed that has not begun is waited for. Where events were dropped before they were
// read, each gets a notice of how many.
func (s *Feeds) Follow(ctx context.Context, id messages.ExecutionID, done <-chan *messages.Execution, each func(messages.RunEvent) error) error {
	_, err := s.FollowFrom(ctx, id, Poll{}, done, each)
	return err
}

// FollowFrom is Follow behind a place, and returns where it stopped. A feed that has been read to its end is left for the
// execution's next one, which may have ended already.
func (s *Feeds) FollowFrom(ctx context.Context, id messages.ExecutionID, at Poll, done <-chan *messages.Execution,
	each func(messages.RunEvent) error,
) (Poll, error) {
	f, next := s.join(id, at)
	defer s.leave(id, f)
	err := s.follow(ctx, f, &next, done, each)
	return Poll{Feed: f.number, From: uint64(next)}, err
}

func (s *Feeds) follow(ctx context.Context, f *feed, next *int, done <-chan *messages.Execution, each func(messages.RunEvent) error) error {
	for last := false; ; {
		events, lost, wake, closed := s.next(f, next)
		if lost > 0 {
			if err := each(messages.NotKept(lost, events[0].At)); err != nil {
				return err
			}
		}
		for _, e := range events {
			if err := each(e); err != nil {
				return err
			}
		}
		if len(events) > 0 {
			continue
		}
		if closed || last {
			return nil
		}
		select {
		case <-wake:
		case <-done:
			last = true // a run closes its feed before its outcome is written, so what is left is there
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// join takes part in the feed that a follower who has read up to a place wants next, and says from which event on.
func (s *Feeds) join(id messages.ExecutionID, at Poll) (f *feed, next int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.ended, func(f *feed) bool {
		return f.id == id && (f.number > at.Feed || f.number == at.Feed && at.From < uint64(f.first+len(f.events)))
	}); i >= 0 {
		f = s.ended[i]
	} else {
		f = s.feed(id)
	}
	if f.number == at.Feed {
		next = int(min(at.From, uint64(f.first+len(f.events))))
	}
	f.read++
	return f, next
}

// leave drops a feed that nothing was ever written to with its last follower.
func (s *Feeds) leave(id messages.ExecutionID, f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.read--
	if f.read == 0 && len(f.events) == 0 && s.feeds[id] == f {
		delete(s.feeds, id)
	}
}

// next returns the events from a place on, and how many before them were dropped unread; then there are events, since a feed keeps its newest one.
func (s *Feeds) next(f *feed, next *int) (events []messages.RunEvent, lost uint64, wake <-chan struct{}, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *next < f.first {
		lost, *next = uint64(f.first-*next), f.first
	}
	events = append(events, f.events[*next-f.first:]...)
	*next += len(events)
	return events, lost, f.wake, f.closed && len(events) == 0
}

func (s *Feeds) feed(id messages.ExecutionID) *feed {
	f, ok := s.feeds[id]
	if !ok {
		s.last++
		f = &feed{number: s.last, id: id, wake: make(chan struct{})}
		s.feeds[id] = f
	}
	return f
}

// drop removes the oldest event.
func (f *feed) drop() {
	oldest := &f.events[0]
	f.bytes -= oldest.Size()
	f.cut.stdout = f.cut.stdout || oldest.Kind == "stdout" && len(oldest.Data) > 0
	f.cut.stderr = f.cut.stderr || oldest.Kind == "stderr" && len(oldest.Data) > 0
	*oldest = messages.RunEvent{}
	f.events = f.events[1:]
	f.first++
}

func (f *feed) notify() {
	close(f.wake)
	f.wake = make(chan struct{})
}
