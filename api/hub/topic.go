package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/live"
)

// topic is a topic with what it was when it was read last. The hub's lock guards it.
type topic struct {
	Topic
	hub     *Hub
	readers map[*Reader]struct{}
	stop    context.CancelFunc // of what reads it; nil: nothing does
	forgets *time.Timer        // runs while nobody reads it
	reading chan struct{}      // has an entry while it is being read, which may go on for a moment when nobody reads it any more

	entries  []live.Entry    // of the answer, as it was read
	shown    map[string]bool // keys of entries, for Touched
	size     int
	snapshot []byte        // of entries, as a frame; nil: not made
	fresh    bool          // entries were read since it has readers
	at       time.Time     // when it was read last, by the store's clock; zero: never
	looked   time.Time     // the same by this machine's
	took     time.Duration // how long that was
	born     int64         // number of its first event; 0: there is none
	last     int64         // number of its newest event
	heard    int64         // number of the last change that it has looked at
	problem  *Problem      // why it could not be read the last time; nil: it was
	told     bool          // those who read it know of the problem

	log     *live.Ring[[]byte] // of what a flow has said; nil: nothing
	logName string
	over    bool // a flow has said all
}

// Event is what a reader is sent of a topic. It is one JSON object.
type Event struct {
	Topic string    `json:"topic"`
	At    time.Time `json:"at,omitzero" doc:"when the topic was read, by the store's clock"`
	N     int64     `json:"n,omitempty" doc:"number of this state of the topic"`
	After int64     `json:"after,omitempty" doc:"number of the state that changes; missing in a snapshot, which replaces all"`
	live.Change
	Log     string            `json:"log,omitempty" doc:"of what is said: the name of the log in which n and after count"`
	Said    []json.RawMessage `json:"said,omitempty" doc:"what was said, in its order: the entries of an execution's output"`
	Lost    int64             `json:"lost,omitempty" doc:"how many entries between after and these were not kept"`
	Problem *Problem          `json:"problem,omitempty" doc:"why the topic cannot be read now; what it was stays"`
}

// Problem says why a topic cannot be read.
type Problem struct {
	Code    messages.Code `json:"code"`
	Message string        `json:"message"`
}

// join gives a new reader what is there, and begins to read the topic for its first one.
func (t *topic) join(r *Reader) {
	if t.forgets != nil {
		t.forgets.Stop()
		t.forgets = nil
	}
	if t.Follow != nil {
		t.joinFlow(r)
		return
	}
	if t.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		t.stop, t.fresh, t.told = stop, false, false
		go t.run(ctx)
		return
	}
	if t.fresh {
		t.serve(r)
	}
	if t.problem != nil {
		r.queue(0, t.frame(&Event{Problem: t.problem}))
	}
}

// leave removes a reader. Without one the topic is not read, and forgotten after a while. What is said is heard until then, for a reader
// who comes back.
func (t *topic) leave(r *Reader) {
	delete(t.readers, r)
	if len(t.readers) > 0 {
		return
	}
	if t.stop != nil && t.Follow == nil {
		t.stop()
		t.stop = nil
	}
	if t.born == 0 && t.log == nil {
		t.forget()
		return
	}
	if t.forgets != nil {
		return
	}
	t.forgets = time.AfterFunc(keptTime, func() {
		t.hub.mu.Lock()
		defer t.hub.mu.Unlock()
		if len(t.readers) == 0 && t.hub.topics[t.Name] == t {
			t.forget()
		}
	})
}

// forget removes a topic that nobody reads.
func (t *topic) forget() {
	if t.forgets != nil {
		t.forgets.Stop()
	}
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
	t.dropLog()
	t.hub.states -= t.size
	t.size = 0
	if t.hub.topics[t.Name] != t {
		return
	}
	delete(t.hub.topics, t.Name)
	if t.Follow != nil {
		t.hub.flows--
	}
}

// run reads the topic until ctx ends: once a tick, and less often where reading takes long.
func (t *topic) run(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		rest := Every
		if t.due() {
			rest = t.look(ctx)
		} else {
			t.serveAll()
		}
		next.Reset(toTick(time.Since(t.hub.began), rest))
	}
}

// toTick is how long to rest to come to a tick of the hub, by the time that it is there and for about how long to rest. Topics that are read
// at the same moment wake a node that is idle, and each of their readers, once for all of them.
func toTick(now, rest time.Duration) time.Duration {
	left := (now + rest).Round(Every) - now
	if left <= 0 {
		left += Every
	}
	return left
}

// due reports whether the topic is to be read now. A topic that is due has heard of all changes so far.
func (t *topic) due() bool {
	h := t.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	changes, all := h.changes.After(t.heard)
	t.heard = h.changes.Last()
	if t.Touched == nil || !t.fresh || !all || !h.cfg.Whole || t.problem != nil || time.Since(t.looked) >= min(max(quietMax, quietShare*t.took), restMax) {
		return true
	}
	for i := range changes {
		if t.Touched(&changes[i], func(key string) bool { return t.shown[key] }) {
			return true
		}
	}
	return false
}

// look reads the topic, tells its readers what has changed, and returns how long the topic rests.
func (t *topic) look(ctx context.Context) time.Duration {
	h := t.hub
	if !enter(ctx, t.reading) {
		return 0
	}
	defer func() { <-t.reading }()
	if !enter(ctx, h.reads) {
		return 0
	}
	began, at := time.Now(), h.cfg.Now()
	limited, cancel := context.WithTimeout(ctx, readTime)
	entries, err := t.read(limited)
	cancel()
	took := time.Since(began)
	<-h.reads
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return 0
	}
	t.took = took
	t.take(entries, err, at)
	return min(max(cmp.Or(t.Tick, Every)-took, readShare*took), restMax)
}

// enter waits for a place, and reports whether there was one before ctx ended.
func enter(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// read returns the entries of the topic's answer.
func (t *topic) read(ctx context.Context) (entries []live.Entry, err error) {
	defer func() {
		if cause := recover(); cause != nil { // one topic must not end the node
			err = fmt.Errorf("reading panicked: %v", cause)
		}
	}()
	entries, err = t.Read(ctx)
	if err == nil && live.Size(entries) > StateMax {
		err = messages.Problemf(messages.CodeInvalidRequest, "the answer has more than %d bytes; follow less at once", StateMax)
	}
	return entries, err
}

// take makes what was read the topic's state.
func (t *topic) take(entries []live.Entry, err error, at time.Time) {
	size := live.Size(entries)
	if err == nil && t.hub.states-t.size+size > statesMax {
		err = messages.Problemf(messages.CodeTooManyRequests, "what is followed on this node has more than %d bytes; follow less", statesMax)
	}
	if err != nil {
		t.fail(err)
		return
	}
	change := live.Diff(t.entries, entries)
	recovered := t.problem != nil
	t.hub.states += size - t.size
	t.entries, t.size, t.at, t.looked, t.problem, t.fresh = entries, size, at, time.Now(), nil, true
	if !change.Empty() || t.born == 0 || recovered {
		t.publish(change)
	}
	for r := range t.readers {
		t.serve(r)
	}
}

// serveAll gives the topic to those who wait for it.
func (t *topic) serveAll() {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	for r := range t.readers {
		t.serve(r)
	}
}

// fail tells the readers once why the topic cannot be read.
func (t *topic) fail(err error) {
	p := problemOf(err)
	if t.told && t.problem != nil && *t.problem == *p {
		return
	}
	t.problem, t.told = p, true
	frame := t.frame(&Event{Problem: p})
	for r := range t.readers {
		r.queue(0, frame)
	}
}

func problemOf(err error) *Problem {
	var p *messages.Problem
	switch {
	case errors.As(err, &p):
		return &Problem{Code: p.Code, Message: p.Message}
	case errors.Is(err, context.DeadlineExceeded):
		return &Problem{Code: messages.CodeUnavailable, Message: fmt.Sprintf("it was not read within %v; it is tried again", readTime)}
	}
	return &Problem{Code: messages.CodeInternal, Message: "it could not be read; it is tried again"}
}

// publish numbers a change and queues it for every reader that has the state before.
func (t *topic) publish(change live.Change) {
	h := t.hub
	number := h.events.Last() + 1
	e := &Event{N: number, After: t.last, Change: change}
	if t.born == 0 {
		t.born = number
	}
	t.last, t.snapshot = number, nil
	if t.Touched != nil {
		t.shown = make(map[string]bool, len(t.entries))
		for i := range t.entries {
			t.shown[t.entries[i].Key] = true
		}
	}
	frame := t.frame(e)
	h.events.Add(event{topic: t.Name, frame: frame})
	for r := range t.readers {
		if !r.topics[t] && !r.queue(number, frame) {
			h.reset(r, "you read slower than the node writes")
			r.tellProblems()
		}
	}
}

// serve gives a reader the whole topic, if it waits for that and there is room.
func (t *topic) serve(r *Reader) {
	if !r.topics[t] {
		return
	}
	if t.snapshot == nil {
		t.snapshot = t.frame(&Event{N: t.last, Change: live.Snapshot(t.entries)})
	}
	if r.waiting > 0 && r.waiting+len(t.snapshot) > t.hub.cfg.Buffer {
		return
	}
	r.topics[t] = false
	r.wants--
	r.add(t.hub.events.Last(), t.snapshot)
}

// frame writes an event as a server-sent one, without its id.
func (t *topic) frame(e *Event) []byte {
	e.Topic, e.At = t.Name, t.at
	return frame(t.Kind, e)
}

// frame writes an event as a server-sent one. The values that it sets are JSON already, and stand in it as they are: an encoder would look at each
// byte of them again.
func frame(kind string, e *Event) []byte {
	rest := *e
	rest.Set = nil
	text, err := json.Marshal(&rest)
	if err == nil && len(e.Set) > 0 {
		text = append(text[:len(text)-1], `,"set":`...)
		if text, err = live.AppendPairs(text, e.Set); err == nil {
			text = append(text, '}')
		}
	}
	if err != nil { // an answer is JSON already
		text = []byte(`{"problem":{"code":"internal","message":"it could not be written"}}`)
	}
	return append(append(append(append([]byte("event: "), kind...), "\ndata: "...), text...), "\n\n"...)
}
