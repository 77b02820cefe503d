package hub

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/live"
)

// Bounds of a hub.
const (
	TopicsMax   = 256              // that are read or kept at once, without flows
	FlowsMax    = 4096             // that are followed or kept at once
	StateMax    = 1 << 20          // bytes of one topic's answer
	statesMax   = 64 << 20         // bytes of all topics' answers
	eventsMax   = 10_000           // that are kept for readers who come back,
	eventsBytes = 4 << 20          // and their bytes
	changesMax  = 10_000           // that are kept between two ticks
	bufferMax   = 256 << 10        // bytes that wait for one reader, unless Config.Buffer says otherwise
	readsMax    = 4                // topics that are read at once
	Every       = time.Second      // a tick
	readTime    = 4 * time.Second  // of one reading
	readShare   = 100              // a topic rests this many times as long as it took to read,
	restMax     = 10 * time.Second // but no longer
	quietMax    = 3 * time.Second  // a topic is read again though nothing that was heard of touches it, but for one that
	quietShare  = 500              // rests so many times as long as it took to read, up to restMax
	keptTime    = 30 * time.Second // a topic without readers, for those who come back
)

// ErrTopics says that no more topics can be followed.
var ErrTopics = errors.New("as many different topics are followed as this node takes")

// Topic is an answer that can be followed.
type Topic struct {
	Name string // as the reader wrote it; two with the same name are the same
	Kind string // the name of its events
	// Tick is how often it is read at most. 0: Every.
	Tick time.Duration
	// Read makes the entries of the answer, which nobody changes afterwards. One reading is under way at a time. A topic has either this
	// or Follow.
	Read func(context.Context) ([]live.Entry, error)
	// Follow calls each for everything that is said, as JSON that is never changed, until there is no more, or ctx ends. It is called
	// again after an error.
	Follow func(ctx context.Context, each func(item []byte) error) error
	// From is how much the reader has of what was said.
	From live.Place
	// Touched reports whether a change of an execution can concern the answer; shown says whether it has an entry. Nil: the answer
	// may change at any time.
	Touched func(c *Change, shown func(key string) bool) bool
}

// Change is a change of an execution. Empty fields are not known.
type Change struct {
	ID                            messages.ExecutionID
	Status                        messages.Status
	Action, Pool, Session, Worker string
	// New: it was submitted. Then its Labels are known.
	New    bool
	Labels map[string]string
}

// Config configures a hub.
type Config struct {
	// ID is in the id of every event, before its number. It is another one after each start.
	ID string
	// Whole says that Note hears of all changes of the store, and not of this node's alone. A topic that nothing touches is then
	// read less often.
	Whole bool
	// Now returns the store's time. Nil: the machine's.
	Now func() time.Time
	// Buffer is how many bytes may wait for one reader; a snapshot may wait alone. 0: 256 KiB.
	Buffer int
}

// Hub is what readers of a node's live stream follow.
type Hub struct {
	began    time.Time // its topics are read at whole ticks behind it
	cfg      Config
	reads    chan struct{} // has one entry for each topic that is being read
	watching atomic.Bool   // there is a reader

	mu      sync.Mutex
	topics  map[string]*topic
	readers map[*Reader]struct{}
	events  *live.Ring[event]
	changes *live.Ring[Change]
	flows   int // of the topics
	states  int // bytes of all topics' answers

	logs     int64 // that were begun
	logBytes int

	resets, dropped atomic.Int64
}

// event is one event of a topic as every reader is sent it, without its id.
type event struct {
	topic string
	frame []byte
}

// New returns a hub without readers, which does nothing.
func New(cfg Config) *Hub {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Buffer == 0 {
		cfg.Buffer = bufferMax
	}
	return &Hub{
		cfg: cfg, began: time.Now(), reads: make(chan struct{}, readsMax), topics: map[string]*topic{}, readers: map[*Reader]struct{}{},
		events:  live.NewRing(eventsMax, eventsBytes, func(e event) int { return len(e.frame) }),
		changes: live.NewRing[Change](changesMax, 0, nil),
	}
}

// Watching reports whether somebody reads. Without a reader nothing need be told.
func (h *Hub) Watching() bool { return h.watching.Load() }

// Note hears of changes after their commit. It never waits for a reader or a store. More than the hub keeps between two ticks are
// dropped, the oldest first; then every topic is read.
func (h *Hub) Note(changes []Change) {
	if !h.Watching() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	lost := 0
	for i := range changes {
		_, dropped := h.changes.Add(changes[i])
		lost += dropped
	}
	h.dropped.Add(int64(lost))
}

// State is what a hub has, for the metrics.
type State struct {
	Readers, Topics int
	Resets          int64 // of readers whose buffer was full, or who came back too late
	Dropped         int64 // changes
}

// State returns what the hub has now.
func (h *Hub) State() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return State{Readers: len(h.readers), Topics: len(h.topics), Resets: h.resets.Load(), Dropped: h.dropped.Load()}
}

// Join adds a reader of topics. Last is the id of the event that it had last, or empty. The reader leaves, whatever happens.
func (h *Hub) Join(topics []Topic, last string) (*Reader, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &Reader{hub: h, topics: map[*topic]bool{}, flows: map[*topic]heard{}, ready: make(chan struct{}, 1)}
	for i := range topics {
		t, err := h.topic(&topics[i])
		if err != nil {
			r.leaveAll()
			return nil, err
		}
		if t.readers[r] = struct{}{}; t.Follow != nil {
			r.flows[t] = heard{Place: topics[i].From}
		} else {
			r.topics[t] = true
		}
	}
	r.wants = len(r.topics)
	h.readers[r] = struct{}{}
	h.watching.Store(true)
	if !h.resume(r, last) && last != "" {
		h.reset(r, "what you had is no longer known here")
	}
	for t := range r.topics {
		t.join(r)
	}
	for t := range r.flows {
		t.join(r)
	}
	return r, nil
}

// Close ends all that the hub does. Nobody may join afterwards.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		t.forget()
	}
}

// topic finds or makes a topic. Where there are too many, one that nobody reads gives its place.
func (h *Hub) topic(of *Topic) (*topic, error) {
	if t, known := h.topics[of.Name]; known {
		return t, nil
	}
	flow := of.Follow != nil
	full := func() bool {
		if flow {
			return h.flows >= FlowsMax
		}
		return len(h.topics)-h.flows >= TopicsMax
	}
	if full() {
		for _, t := range h.topics {
			if len(t.readers) == 0 && (t.Follow != nil) == flow {
				t.forget()
				break
			}
		}
	}
	if full() {
		return nil, ErrTopics
	}
	if flow {
		h.flows++
	}
	t := &topic{Topic: *of, hub: h, readers: map[*Reader]struct{}{}, reading: make(chan struct{}, 1)}
	h.topics[of.Name] = t
	return t, nil
}

// resume gives a reader what it has missed, if all of that is known.
func (h *Hub) resume(r *Reader, last string) bool {
	number, ours := h.number(last)
	if !ours {
		return false
	}
	missed, all := h.events.After(number)
	if !all {
		return false
	}
	for t := range r.topics {
		if t.born == 0 || t.born > number {
			return false
		}
	}
	follows := func(e *event) bool { _, does := r.topics[h.topics[e.topic]]; return does }
	size := 0
	for i := range missed {
		if follows(&missed[i]) {
			size += len(missed[i].frame)
		}
	}
	if size > h.cfg.Buffer {
		return false
	}
	for t := range r.topics {
		r.topics[t] = false
	}
	r.wants = 0
	for i := range missed {
		if follows(&missed[i]) {
			r.add(number+int64(i)+1, missed[i].frame)
		}
	}
	return true
}
