package mask

import (
	"bytes"
	"encoding/json"
)

// Stream masks a text that comes in pieces, whose borders may stand inside a secret. Its zero value masks nothing. It is not
// safe for concurrent use.
type Stream struct {
	set *Set

	at      int32  // node
	held    []byte // the end of what came, which may begin a secret
	base    int    // where held begins in the text
	hits    []span // in held, in order, apart from each other
	redacts bool   // the last byte that was given out belongs to a secret, whose mark is out
}

// span is a part of the text that belongs to secrets.
type span struct{ from, to int }

// Stream returns a new one. A nil Set has one that masks nothing.
func (s *Set) Stream() Stream { return Stream{set: s} }

// Write takes a piece and returns what of the text is settled, masked. What it returns is the caller's, or data itself.
func (t *Stream) Write(data []byte) []byte {
	if t.set == nil {
		return data
	}
	if t.at == 0 && len(t.held) == 0 && !t.redacts && !t.set.begins(data) {
		return data
	}
	for _, letter := range data {
		t.held = append(t.held, letter)
		t.at = t.set.step(t.at, letter)
		if n := int(t.set.ends[t.at]); n > 0 {
			end := t.base + len(t.held)
			t.hit(span{end - n, end})
		}
	}
	return t.give(t.base + len(t.held) - int(t.set.depth[t.at]))
}

// Flush returns what is held back, masked, and begins a new text.
func (t *Stream) Flush() []byte {
	if t.set == nil {
		return nil
	}
	out := t.give(t.base + len(t.held))
	*t = t.set.Stream()
	return out
}

// hit notes a secret, together with those that it overlaps.
func (t *Stream) hit(h span) {
	for n := len(t.hits); n > 0 && t.hits[n-1].to >= h.from; n-- {
		h.from = min(h.from, t.hits[n-1].from)
		t.hits = t.hits[:n-1]
	}
	t.hits = append(t.hits, h)
}

// give returns the text up to a place, and lets go of it.
func (t *Stream) give(upTo int) []byte {
	var out []byte
	at, n := t.base, 0
	for _, h := range t.hits {
		if h.from >= upTo {
			break
		}
		if h.from > at {
			out = append(out, t.held[at-t.base:h.from-t.base]...)
		}
		if h.from > at || !t.redacts {
			out = append(out, Mark...)
		}
		t.redacts = true
		if h.to > upTo { // more of it may come
			at = upTo
			t.hits[n] = span{upTo, h.to}
			break
		}
		at = h.to
		n++
	}
	if at < upTo {
		out = append(out, t.held[at-t.base:upTo-t.base]...)
		t.redacts = false
	}
	t.hits = append(t.hits[:0], t.hits[n:]...)
	t.held = append(t.held[:0], t.held[upTo-t.base:]...)
	t.base = upTo
	return out
}

// begins reports whether a text has a secret, or ends with what may begin one.
func (s *Set) begins(data []byte) bool {
	at := int32(0)
	for _, letter := range data {
		if at = s.step(at, letter); s.ends[at] > 0 {
			return true
		}
	}
	return at != 0
}

// Text masks a whole text.
func (s *Set) Text(text string) string {
	if s == nil || text == "" {
		return text
	}
	t := s.Stream()
	return string(t.Write([]byte(text))) + string(t.Flush())
}

// JSON masks the texts in a JSON value, keys and numbers too, and leaves it valid. What cannot be read is replaced as a whole.
func (s *Set) JSON(raw json.RawMessage) json.RawMessage {
	if s == nil || len(raw) == 0 || !s.has(raw) && bytes.IndexByte(raw, '\\') < 0 { // what is escaped may be written in many ways
		return raw
	}
	return s.value(raw)
}

// has reports whether a secret is in the text.
func (s *Set) has(data []byte) bool {
	at := int32(0)
	for _, letter := range data {
		if at = s.step(at, letter); s.ends[at] > 0 {
			return true
		}
	}
	return false
}
