package hub

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/rules/live"
)

// Reader is one who follows topics. Only its own goroutine calls Take and Ages.
type Reader struct {
	hub   *Hub
	ready chan struct{}

	// The hub's lock guards what follows.
	topics  map[*topic]bool // whether it waits for the whole topic
	flows   map[*topic]heard
	wants   int // topics that it waits for
	frames  [][]byte
	waiting int // bytes of frames
	left    bool
}

// Ready has an entry when there is something to take.
func (r *Reader) Ready() <-chan struct{} { return r.ready }

// Take returns what waits, as it is written to the reader, and a part of what its flows have said since.
func (r *Reader) Take() [][]byte {
	frames, parts := r.take()
	for _, p := range parts {
		frames = append(frames, p.frame())
	}
	return frames
}

// Said returns a part of what its flows have said since, for a reader of flows alone.
func (r *Reader) Said() []Event {
	_, parts := r.take()
	said := make([]Event, len(parts))
	for i, p := range parts {
		said[i] = p.Event
	}
	return said
}

// Over reports whether a reader of flows alone has all that they ever say.
func (r *Reader) Over() bool {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	for t, at := range r.flows {
		if !t.over || t.log != nil && at.Place != (live.Place{Log: t.logName, N: t.log.Last()}) {
			return false
		}
	}
	return true
}

func (r *Reader) take() (frames [][]byte, parts []*part) {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	frames = r.frames
	r.frames, r.waiting = nil, 0
	for t := range r.flows {
		p, more := t.part(r, r.hub.cfg.Buffer/len(r.flows))
		if p != nil {
			parts = append(parts, p)
		}
		if more {
			r.wake()
		}
	}
	return frames, parts
}

// wake says that there is something to take.
func (r *Reader) wake() {
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// Ages returns when each topic was read last; a topic that was never read is missing.
func (r *Reader) Ages() map[string]time.Time {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	ages := make(map[string]time.Time, len(r.topics))
	for t := range r.topics {
		if t.fresh && t.problem == nil {
			ages[t.Name] = t.at
		}
	}
	for t := range r.flows {
		if t.log != nil && t.problem == nil { // it is told at once
			ages[t.Name] = r.hub.cfg.Now()
		}
	}
	return ages
}

// Leave ends the following. It may be called again.
func (r *Reader) Leave() {
	h := r.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.left {
		return
	}
	r.left = true
	delete(h.readers, r)
	r.leaveAll()
	h.watching.Store(len(h.readers) > 0)
}

func (r *Reader) leaveAll() {
	for t := range r.topics {
		t.leave(r)
	}
	for t := range r.flows {
		t.leave(r)
	}
}

// queue adds a frame, and reports whether there was room. A number that is not zero becomes the event's id.
func (r *Reader) queue(number int64, frame []byte) bool {
	if r.waiting > 0 && r.waiting+len(frame) > r.hub.cfg.Buffer {
		return false
	}
	r.add(number, frame)
	return true
}

// add adds a frame. An event has an id only where the reader has every topic: whoever comes back with an id has all up to it.
func (r *Reader) add(number int64, frame []byte) {
	if number > 0 && r.wants == 0 {
		id := "id: " + r.hub.cfg.ID + "." + strconv.FormatInt(number, 10) + "\n"
		r.frames = append(r.frames, []byte(id))
		r.waiting += len(id)
	}
	r.frames = append(r.frames, frame)
	r.waiting += len(frame)
	r.wake()
}

// reset drops what waits for a reader, says why, and has it given every topic anew.
func (h *Hub) reset(r *Reader, why string) {
	h.resets.Add(1)
	r.frames, r.waiting = nil, 0
	for t := range r.topics {
		r.topics[t] = true
	}
	for t := range r.flows {
		r.flows[t] = heard{}
	}
	r.wants = len(r.topics)
	r.add(0, Reset(why, 0))
}

// tellProblems tells a reader, who has forgotten all, which of its topics cannot be read now.
func (r *Reader) tellProblems() {
	for t := range r.topics {
		if t.problem != nil {
			r.queue(0, t.frame(&Event{Problem: t.problem}))
		}
	}
}

// Reset is the event that says why what a reader has no longer holds, and after how long to come back where the stream ends. It takes the
// id back.
func Reset(why string, after time.Duration) []byte {
	text, err := json.Marshal(struct {
		Why   string `json:"why"`
		After int64  `json:"retry_after_ms"`
	}{why, after.Milliseconds()})
	if err != nil { // a text and a number can be written
		text = []byte("{}")
	}
	frame := "id:\nevent: reset\n"
	if after > 0 {
		frame += "retry: " + strconv.FormatInt(after.Milliseconds(), 10) + "\n"
	}
	return []byte(frame + "data: " + string(text) + "\n\n")
}

// number reads the id of an event of this hub.
func (h *Hub) number(id string) (number int64, ours bool) {
	text, ours := strings.CutPrefix(id, h.cfg.ID+".")
	if !ours {
		return 0, false
	}
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil && number > 0
}
