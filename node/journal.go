package node

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/store"
)

// recording keeps what this node records in the journal until the store has it. Once a second a monitor has it written, so that
// nothing else waits for that.
type recording struct {
	*base

	turn sync.Mutex // held while entries are written
	mu   sync.Mutex
	log  journal.Log
}

// flushEvery is how often the journal is written, and flushMax bounds the statements of one time.
const (
	flushEvery = time.Second
	flushMax   = 10
)

// add records an event, unless there are too many of its kind, which the journal then says. Without a time it has happened just now.
func (r *recording) add(e messages.JournalEntry) { r.take(e) }

// take is add, and reports whether the event is recorded.
func (r *recording) take(e messages.JournalEntry) bool {
	if r.cfg.Unrecorded {
		return false
	}
	if e.At.IsZero() {
		e.At = r.clock.Now()
	}
	for _, text := range []*string{&e.Subject, &e.Reason, &e.Caller} {
		*text = clipText(*text, store.JournalTextMax)
	}
	if len(e.Detail) > store.JournalDetailMax {
		e.Detail = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Add(time.Now(), e)
}

// node records an event of this incarnation.
func (r *recording) node(what, reason, caller string, detail map[string]any) {
	r.about(r.incarnation, what, reason, caller, detail)
}

// about records an event of an incarnation.
func (r *recording) about(inc messages.Incarnation, what, reason, caller string, detail map[string]any) {
	e := messages.JournalEntry{Kind: messages.JournalNode, Subject: inc.String(), What: what, Reason: reason, Caller: caller}
	if raw, err := json.Marshal(detail); err == nil && len(detail) > 0 {
		e.Detail = raw
	}
	r.add(e)
}

// operator records what somebody had done, with the reason that the context has.
func (r *recording) operator(ctx context.Context, what, subject, caller string) {
	r.add(messages.JournalEntry{Kind: messages.JournalOperator, Subject: subject, What: what, Reason: view.ReasonOf(ctx), Caller: caller})
}

// clipText cuts a text to so many bytes.
func clipText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}

// flush writes what was recorded. After an error it is written again with the next: the store knows what it has.
func (r *recording) flush(ctx context.Context) error { return r.write(ctx, false) }

// finish writes all, and what was dropped, before the node leaves its store.
func (r *recording) finish(ctx context.Context) error { return r.write(ctx, true) }

func (r *recording) write(ctx context.Context, last bool) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	for range flushMax {
		r.mu.Lock()
		batch := r.log.Batch(time.Now(), store.JournalBatch, last)
		r.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		for i := range batch { // the log makes some by itself
			batch[i].Incarnation = r.incarnation
		}
		err := r.store.AppendJournal(ctx, batch)
		if err != nil && !errors.Is(err, store.ErrInvalid) {
			return err
		}
		r.mu.Lock()
		if number := batch[len(batch)-1].Number; err == nil {
			r.log.Stored(number)
		} else { // a defect; what comes after it is not to wait for ever
			r.logger.Error("entries of the journal are not stored", "entries", len(batch), "error", err)
			r.log.Refuse(time.Now(), number)
		}
		r.mu.Unlock()
	}
	return nil
}
