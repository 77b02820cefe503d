package mask

import (
	"bytes"
	"encoding/json"
)

// Stream masks a text that comes in pieces, whose borders may stand inside a secret. Its zero value masks nothing. It is not
// safe for concurrent use.
//
// The end of a text may be a secret that was not written to its end. Its first half and more is masked as the whole is; less than
// half of it is shown, which leaves the other half unknown. A lower bound would give the secret away: who chooses what a
// program prints last would find it byte by byte, by looking which guess is masked.
type Stream struct {
	set *Set

	at      int32  // node
	held    []byte // the end of what came, which may begin a secret; at's depth is more than that where a pause gave it out
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
	return t.give(max(t.base, t.base+len(t.held)-int(t.set.depth[t.at])))
}

// Pause returns what is held back, as at the end of a text. The text may go on: what then comes of a secret whose beginning was
// given out is masked.
func (t *Stream) Pause() []byte {
	if t.set == nil {
		return nil
	}
	end := t.base + len(t.held)
	if n := int(t.set.part[t.at]); n > 0 {
		t.hit(span{end - n, end})
	}
	return t.give(end)
}

// End returns what is held back, masked, and begins a new text.
func (t *Stream) End() []byte {
	out := t.Pause()
	*t = t.set.Stream()
	return out
}

// Drop says that nobody sees what was given out: what follows of a secret gets a mark of its own.
func (t *Stream) Drop() { t.redacts = false }

// rest returns what is held back of a text that is whole, so that a secret which is not there to its end is none.
func (t *Stream) rest() []byte { return t.give(t.base + len(t.held)) }

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
	return string(t.Write([]byte(text))) + string(t.rest())
}

// Cut masks a text whose end was cut off.
func (s *Set) Cut(text string) string {
	if s == nil || text == "" {
		return text
	}
	t := s.Stream()
	return string(t.Write([]byte(text))) + string(t.End())
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
