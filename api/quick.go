package api

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/rules/submit"
)

// Bounds of what quick reads.
const (
	quickDepth = 32 // nesting
	quickKeys  = 16 // keys of one object
	quickInt   = 9  // digits of a whole number
)

// quick reads a submission in one pass, if it is written as programs write it: with known fields, once each, of the right types, and
// texts without escapes. It reports false for anything else, whether it is right or wrong, and v is unchanged. Then checkNames and
// encoding/json read it again, so that every error is theirs. What quick reads, they would read as the same value:
// FuzzQuick compares them.
func quick(b []byte, v any) bool {
	var body form.SubmitBody
	q := quickReader{b: b}
	read := func(waits bool) bool { return utf8.Valid(b) && q.submission(&body, waits) && q.i == len(b) }
	switch v := v.(type) {
	case *form.SubmitBody:
		if read(true) {
			*v = body
			return true
		}
	case *submit.Request:
		if read(false) {
			*v = body.Request
			return true
		}
	}
	return false
}

// quickReader reads JSON. Its methods report false for what is no JSON, and for what quick does not read. They skip the blanks
// behind what they read.
type quickReader struct {
	b []byte
	i int
}

func (q *quickReader) submission(v *form.SubmitBody, waits bool) bool {
	q.blanks()
	return q.object(func(key []byte) bool {
		switch string(key) {
		case "action_ref":
			return q.text(&v.ActionRef)
		case "parameters":
			return q.raw(&v.Parameters)
		case "session":
			return q.text(&v.Session)
		case "affinity":
			return q.text(&v.Affinity)
		case "priority":
			return q.whole(&v.Priority)
		case "run_at":
			var text json.RawMessage
			return q.raw(&text) && text[0] == '"' && v.RunAt.UnmarshalJSON(text) == nil
		case "idempotency_key":
			return q.text(&v.IdempotencyKey)
		case "timeout_seconds":
			return q.float(&v.TimeoutSeconds)
		case "max_retries":
			return q.whole(&v.MaxRetries)
		case "queue_deadline_seconds":
			return q.float(&v.QueueDeadline)
		case "labels":
			return q.labels(&v.Labels)
		case "trace":
			return q.text(&v.Trace)
		case "wait_seconds":
			return waits && q.float(&v.WaitSeconds)
		}
		return false
	})
}

// object reads an object. For each key it calls member, which reads the value.
func (q *quickReader) object(member func(key []byte) bool) bool {
	if !q.take('{') {
		return false
	}
	if q.take('}') {
		return true
	}
	var list [quickKeys][]byte
	for keys := list[:0]; len(keys) < quickKeys; {
		key, plain := q.quoted()
		if !plain || !q.take(':') {
			return false
		}
		for _, k := range keys {
			if bytes.Equal(k, key) {
				return false
			}
		}
		keys = append(keys, key)
		if !member(key) {
			return false
		}
		if !q.take(',') {
			return q.take('}')
		}
	}
	return false
}

// value reads any value.
func (q *quickReader) value(depth int) bool {
	if depth == 0 || q.i == len(q.b) {
		return false
	}
	switch c := q.b[q.i]; {
	case c == '{':
		return q.object(func([]byte) bool { return q.value(depth - 1) })
	case c == '[':
		return q.list(depth)
	case c == '"':
		return q.skip()
	case c == 't':
		return q.word("true")
	case c == 'f':
		return q.word("false")
	case c == 'n':
		return q.word("null")
	}
	return q.number() != nil
}

func (q *quickReader) list(depth int) bool {
	q.take('[')
	if q.take(']') {
		return true
	}
	for q.value(depth - 1) {
		if !q.take(',') {
			return q.take(']')
		}
	}
	return false
}

// raw reads any value as it is written.
func (q *quickReader) raw(v *json.RawMessage) bool {
	start := q.i
	if !q.value(quickDepth) {
		return false
	}
	*v = bytes.Clone(bytes.TrimRight(q.b[start:q.i], " \t\r\n"))
	return true
}

func (q *quickReader) text(v *string) bool {
	text, plain := q.quoted()
	*v = string(text)
	return plain
}

func (q *quickReader) labels(v *map[string]string) bool {
	labels := map[string]string{}
	*v = labels
	return q.object(func(key []byte) bool {
		var text string
		plain := q.text(&text)
		labels[string(key)] = text
		return plain
	})
}

func (q *quickReader) whole(v **int) bool {
	text := q.number()
	n, err := strconv.Atoi(string(text))
	*v = &n
	return err == nil && len(text) <= quickInt
}

func (q *quickReader) float(v **float64) bool {
	f, err := strconv.ParseFloat(string(q.number()), 64)
	*v = &f
	return err == nil
}

// quoted reads a string and returns what is between its quotes. It reads none with escapes.
func (q *quickReader) quoted() (text []byte, plain bool) {
	if q.i == len(q.b) || q.b[q.i] != '"' {
		return nil, false
	}
	for i := q.i + 1; i < len(q.b); i++ {
		switch c := q.b[i]; {
		case c == '"':
			text = q.b[q.i+1 : i]
			q.i = i + 1
			q.blanks()
			return text, true
		case c < ' ' || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

// skip reads a string, which may have escapes.
func (q *quickReader) skip() bool {
	for i := q.i + 1; i < len(q.b); i++ {
		switch c := q.b[i]; {
		case c == '"':
			q.i = i + 1
			q.blanks()
			return true
		case c < ' ':
			return false
		case c == '\\':
			if i++; i == len(q.b) {
				return false
			}
			switch q.b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if i++; i == len(q.b) || !hexDigit(q.b[i]) {
						return false
					}
				}
			default:
				return false
			}
		}
	}
	return false
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// number reads a number and returns it; nil: there is none.
func (q *quickReader) number() []byte {
	i := q.i
	if i < len(q.b) && q.b[i] == '-' {
		i++
	}
	whole := q.digits(i)
	if whole == i || whole > i+1 && q.b[i] == '0' {
		return nil
	}
	i = whole
	if i < len(q.b) && q.b[i] == '.' {
		end := q.digits(i + 1)
		if end == i+1 {
			return nil
		}
		i = end
	}
	if i < len(q.b) && (q.b[i] == 'e' || q.b[i] == 'E') {
		if i++; i < len(q.b) && (q.b[i] == '+' || q.b[i] == '-') {
			i++
		}
		end := q.digits(i)
		if end == i {
			return nil
		}
		i = end
	}
	text := q.b[q.i:i]
	q.i = i
	q.blanks()
	return text
}

// digits returns the end of the digits that begin at i.
func (q *quickReader) digits(i int) int {
	for i < len(q.b) && q.b[i] >= '0' && q.b[i] <= '9' {
		i++
	}
	return i
}

func (q *quickReader) word(w string) bool {
	if !bytes.HasPrefix(q.b[q.i:], []byte(w)) {
		return false
	}
	q.i += len(w)
	q.blanks()
	return true
}

func (q *quickReader) take(c byte) bool {
	if q.i == len(q.b) || q.b[q.i] != c {
		return false
	}
	q.i++
	q.blanks()
	return true
}

func (q *quickReader) blanks() {
	for q.i < len(q.b) && (q.b[q.i] == ' ' || q.b[q.i] == '\t' || q.b[q.i] == '\r' || q.b[q.i] == '\n') {
		q.i++
	}
}
