package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// A frame of the right length whose JSON is wrong, and one that is too long, are faults of one request: the node keeps what it can of them, and the
// stream goes on behind them. What names no request is a broken stream.
const (
	// skipMax bounds a frame that is passed over. A longer length is no frame's: it is text that was written into the pipe.
	skipMax = 64 << 20
	// headMax is how much of such a frame is read. It has the whole message of an error that fits into the frame's beginning, beside what else
	// it says.
	headMax = messages.ErrorMessageMax + 32<<10
)

// largeFrame is what was kept of a frame that is too long.
type largeFrame struct{ event Event }

func (*largeFrame) Error() string { return "a frame is too long" }

// event returns the next frame's event. Its errors are those of next and of decodeEvent.
func (r *frameReader) event() (Event, error) {
	payload, err := r.next()
	var large *largeFrame
	switch {
	case errors.As(err, &large):
		return large.event, nil
	case err != nil:
		return nil, err
	}
	return decodeEvent(payload)
}

// large reads the beginning of a frame that is too long, and passes over the rest of it.
func (r *frameReader) large(size int64) error {
	outside := func() error {
		return broken("frame length %d is outside 1 to %d: the first bytes are %s", size, r.max, clip(r.buf[r.from:r.to]))
	}
	if size == 0 || size > skipMax {
		return outside()
	}
	whole := headerLen + int(size)
	head := min(whole, headerLen+headMax)
	for r.to-r.from < head {
		if !beginsObject(r.buf[min(r.from+headerLen, r.to):r.to]) {
			return outside()
		}
		if err := r.fill(head); err != nil {
			return err
		}
	}
	event, ok := keptOfLarge(r.buf[r.from+headerLen:r.from+head], size, r.max)
	if !ok {
		return outside()
	}
	if err := r.skip(whole); err != nil {
		return err
	}
	return &largeFrame{event}
}

// beginsObject reports whether bytes may be the beginning of a JSON object.
func beginsObject(head []byte) bool {
	if len(head) == 0 {
		return true
	}
	rest := bytes.TrimLeft(head[1:], " \t\r\n")
	return head[0] == '{' && (len(rest) == 0 || rest[0] == '"' || rest[0] == '}')
}

// skip passes over a frame of n bytes, whose beginning is in the buffer.
func (r *frameReader) skip(n int) error {
	if !r.timed {
		r.timed, r.begun = true, time.Now()
	}
	come := min(n, r.to-r.from)
	for r.from += come; come < n; {
		r.from, r.to = 0, 0
		r.heard = time.Now()
		if err := r.src.SetReadDeadline(earlier(r.heard.Add(silenceTime), r.begun.Add(frameTime(n)))); err != nil {
			return err
		}
		got, err := r.src.Read(r.buf[:min(len(r.buf), n-come)])
		if come += got; got == 0 && err != nil {
			return r.ended(err, come, n)
		}
	}
	return r.untime()
}

// keptOf reads the fields of a frame whose JSON is wrong somewhere, each by itself. False: it has no name of an event.
func keptOf(payload []byte) (*wireEvent, bool) {
	fields, whole := members(payload)
	if !whole {
		return nil, false
	}
	e := keptFields(fields)
	return e, e.Event != ""
}

// keptFields reads what can be read.
func keptFields(fields map[string]member) *wireEvent {
	e := &wireEvent{Data: fields["data"].text, Message: fields["message"].string(), Level: fields["level"].string(), Event: fields["event"].string(), Execution: fields["execution"].string()}
	into := func(v any, name string) bool { return json.Unmarshal(fields[name].text, v) == nil }
	var id uint64
	if into(&id, "id") {
		e.ID = &id
	}
	into(&e.Close, "close")
	into(&e.Attempt, "attempt")
	var fraction float64
	if into(&fraction, "fraction") {
		e.Fraction = &fraction
	}
	if inner, ok := fields["error"]; ok && len(inner.text) > 0 && inner.text[0] == '{' {
		e.Error = keptError(inner.text)
	}
	return e
}

func keptError(text []byte) *wireError {
	fields, _ := members(text)
	e := &wireError{
		Code: messages.Code(fields["code"].string()), Message: fields["message"].string(), Type: fields["type"].string(), Details: fields["details"].text,
	}
	for name, v := range map[string]any{"types": &e.Types, "retriable": &e.Retriable, "worker_fault": &e.WorkerFault} {
		_ = json.Unmarshal(fields[name].text, v) // what cannot be read was not said
	}
	return e
}

// keptOfLarge is the event of a frame of size bytes, more than the limit, by its beginning. False: that does not name the event and its request.
func keptOfLarge(head []byte, size int64, limit int) (Event, bool) {
	fields, _ := members(head)
	e := keptFields(fields)
	if isEventName(e.Event) && e.ID == nil {
		return nil, false
	}
	large := func(what string) *messages.Error {
		return &messages.Error{Code: messages.CodeResultTooLarge, Retriable: new(bool), Message: fmt.Sprintf(
			"the %s has %d bytes with its frame, more than the %d that a frame may have; return a reference instead", what, size, limit)}
	}
	failure := func() *messages.Error {
		err := &wireError{}
		if e.Error != nil {
			err = e.Error
		}
		err.Details, _ = json.Marshal(fmt.Sprintf("left out: the error has %d bytes with its frame, more than the %d that a frame may have", size, limit))
		if err.Message == "" {
			err.Message = "the error is too large to be told"
		}
		return err.message()
	}
	switch e.Event {
	case "result":
		return Reply{ID: *e.ID, Err: large("result"), Close: e.Close}, true
	case "chunk":
		return Chunk{ID: *e.ID, Err: large("chunk")}, true
	case "error":
		return Reply{ID: *e.ID, Err: failure(), Close: e.Close}, true
	case "fault":
		err := failure()
		e.Error = &wireError{}
		fault := e.fault()
		fault.Err = err
		return fault, true
	case "progress", "log":
		return Log{ID: orZero(e.ID), Level: "warn", Message: fmt.Sprintf("a %s event of %d bytes is left out", e.Event, size)}, true
	}
	return nil, false
}

// member is one value of an object as it is written.
type member struct {
	text []byte
	cut  bool // the text ends within it
}

// string is the value of a text; of another value it is what is written, and of one that was cut nothing, or, past the bound of all texts,
// its beginning.
func (m member) string() string {
	var s string
	if m.cut {
		const escapeMax = 12 // bytes of a character, as \ud83d\ude00
		for end := messages.ErrorMessageMax; len(m.text) > end && end > messages.ErrorMessageMax-escapeMax; end-- {
			if json.Unmarshal(append(slices.Clone(m.text[:end]), '"'), &s) == nil {
				break
			}
		}
		return s
	}
	if len(m.text) > 0 && json.Unmarshal(m.text, &s) != nil {
		return messages.ClipText(string(m.text), messages.ErrorMessageMax)
	}
	return s
}

// members splits an object into its members without a judgement of their values: each ends at the comma or the brace of its own level.
// Whole: the text is one object. Of a name that is there twice the first one counts.
func members(text []byte) (fields map[string]member, whole bool) {
	fields = map[string]member{}
	s := splitter{text: text}
	if !s.take('{') {
		return fields, false
	}
	for s.at < len(text) && text[s.at] == '"' {
		from := s.at
		var name string
		if !s.quoted() || json.Unmarshal(text[from:s.at], &name) != nil || !s.take(':') {
			return fields, false
		}
		from = s.at
		closed := s.value()
		if _, twice := fields[name]; !twice {
			fields[name] = member{text: []byte(strings.TrimRight(string(text[from:s.at]), blanks)), cut: !closed}
		}
		if !s.take(',') {
			break
		}
	}
	return fields, s.take('}') && s.at == len(text)
}

const blanks = " \t\r\n"

// splitter finds the ends of values by their quotes and brackets.
type splitter struct {
	text []byte
	at   int
}

func (s *splitter) skipBlanks() {
	for s.at < len(s.text) && strings.IndexByte(blanks, s.text[s.at]) >= 0 {
		s.at++
	}
}

func (s *splitter) take(c byte) bool {
	if s.skipBlanks(); s.at == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	s.skipBlanks()
	return true
}

// quoted passes over a text. False: it has no end.
func (s *splitter) quoted() bool {
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return true
		}
	}
	s.at = len(s.text)
	return false
}

// value passes over a value. False: it has no end.
func (s *splitter) value() bool {
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			if !s.quoted() {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return true
			}
		case ',':
			if depth == 0 {
				return true
			}
		}
		s.at++
	}
	return false
}
