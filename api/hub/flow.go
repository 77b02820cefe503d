package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/rules/live"
)

// Bounds of what is said of topics that are flows.
const (
	logMax   = 4 << 20  // bytes of one topic's log: what a node keeps of a run's live events fits
	logsMax  = 64 << 20 // bytes of all logs
	logItems = 100_000  // items of one log
	logItem  = 32       // bytes that an item takes beside its text
)

// A flow is a topic that says something as it comes, in the place of an answer that is read once a tick. What was said stays in a log, and
// each reader takes it from there at its own pace, so nothing waits in the reader's buffer. The log is the topic's while it has readers,
// and for a moment behind the last one.

// heard is how much a reader has of a flow.
type heard struct {
	live.Place
	problem *Problem // that it was told of
}

// joinFlow begins to follow the topic for its first reader. A new reader whose place is not known begins at the beginning.
func (t *topic) joinFlow(r *Reader) {
	if from := r.flows[t]; t.log == nil || from.Log != t.logName || from.N > t.log.Last() {
		r.flows[t] = heard{}
	}
	if t.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		t.stop = stop
		go t.followAll(ctx)
	}
	r.wake()
}

// followAll follows until what is said has an end, or ctx ends. After an error it begins anew, with another log, after longer and longer
// rests.
func (t *topic) followAll(ctx context.Context) {
	for rest := Every; ; rest = min(2*rest, restMax) {
		err := t.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			t.end()
			return
		}
		if t.failed(err) {
			rest = Every
		}
		wait := time.NewTimer(rest)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return
		}
	}
}

// follow follows once.
func (t *topic) follow(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil { // one topic must not end the node
			err = fmt.Errorf("following panicked: %v", cause)
		}
	}()
	first := true
	return t.Follow(ctx, func(item []byte) error {
		t.say(ctx, item, first)
		first = false
		return ctx.Err()
	})
}

// failed notes why nothing is said, and reports whether something was before.
func (t *topic) failed(err error) (news bool) {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	news = t.problem == nil
	if p := problemOf(err); news || *t.problem != *p {
		t.problem = p
		t.wakeAll()
	}
	return news
}

// end notes that all is said, for readers who wait for that.
func (t *topic) end() {
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	t.over = true
	t.wakeAll()
}

func (t *topic) wakeAll() {
	for r := range t.readers {
		r.wake()
	}
}

// say adds an item to the log. The first one of each following begins a log of its own.
func (t *topic) say(ctx context.Context, item []byte, first bool) {
	h := t.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil { // the topic may be forgotten
		return
	}
	if first {
		t.dropLog()
		h.logs++
		t.logName = h.cfg.ID + "-" + strconv.FormatInt(h.logs, 10)
		t.log = live.NewRing(logItems, logMax, func(item []byte) int { return logItem + len(item) })
	}
	before := t.log.Size()
	t.log.Add(item)
	for h.logBytes+t.log.Size()-before > logsMax && t.log.Drop() {
	}
	h.logBytes += t.log.Size() - before
	t.problem = nil
	t.wakeAll()
}

func (t *topic) dropLog() {
	if t.log != nil {
		t.hub.logBytes -= t.log.Size()
		t.log = nil
	}
}

// part is what a reader takes of a flow at a time.
type part struct {
	Event
	kind string
}

// part returns what comes next for a reader, up to so many bytes, and whether more is left. Nil: nothing has come. A problem comes behind
// all that was said.
func (t *topic) part(r *Reader, room int) (p *part, more bool) {
	if p, more = t.said(r, room); p != nil {
		return p, more || t.problem != nil
	}
	at := r.flows[t]
	if t.problem == at.problem {
		return nil, false
	}
	r.flows[t] = heard{at.Place, t.problem}
	if t.problem == nil {
		return nil, false
	}
	return &part{kind: t.Kind, Event: Event{Topic: t.Name, Problem: t.problem}}, false
}

func (t *topic) said(r *Reader, room int) (p *part, more bool) {
	if t.log == nil {
		return nil, false
	}
	at := r.flows[t].Place
	p = &part{kind: t.Kind, Event: Event{Topic: t.Name, At: t.hub.cfg.Now(), Log: t.logName}}
	if at.Log == t.logName {
		p.After = at.N
	} else {
		at = live.Place{Log: t.logName}
	}
	items, lost, next := t.log.Part(at.N, room)
	if next == at.N {
		return nil, false
	}
	p.N, p.Lost = next, lost
	p.Said = make([]json.RawMessage, len(items))
	for i := range items {
		p.Said[i] = items[i]
	}
	r.flows[t] = heard{Place: live.Place{Log: t.logName, N: next}}
	return p, next < t.log.Last()
}

// frame writes the part as a server-sent event. It has no id: its reader goes on by its place.
func (p *part) frame() []byte { return frame(p.kind, &p.Event) }
