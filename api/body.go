package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/troupe-run/troupe/messages"
)

// Bounds of a request's body.
const (
	BodyMax      = 3 << 19           // 1.5 MiB, of every request but a batch
	BatchBodyMax = 32 << 20          // 32 MiB
	bodyTime     = 30 * time.Second  // a body that is begun must be finished within it
	batchTime    = 120 * time.Second // the same for a batch
	drainMax     = 4 << 20           // at least so much is thrown away of a body that is refused, so that the caller sees the answer
	drainTime    = 5 * time.Second   // for as long
	bodyWrap     = 4                 // nesting that a request puts around its parameters, and one that Check names
	keepBuffer   = 64 << 10          // a larger buffer is not kept for the next request
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= keepBuffer {
		buffers.Put(b)
	}
}

// decode reads the request's JSON body into v. An unknown field, a second value behind the first, nesting deeper
// than parameters may have, and bytes that are no UTF-8 are refused. An empty body is refused unless optional. With its body
// read the call takes its place.
func (c *call) decode(optional bool, v any) error {
	if optional && c.r.ContentLength == 0 {
		return c.enter()
	}
	if err := mediaType(c.r, optional); err != nil {
		return err
	}
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	defer putBuffer(buf)
	if err := c.readBody(buf); err != nil {
		return err
	}
	if !optional || len(bytes.TrimSpace(buf.Bytes())) > 0 {
		if err := decodeStrict(theBody, buf.Bytes(), v); err != nil {
			return err
		}
	}
	return c.enter()
}

// mediaType wants application/json as it is. A request without a body may leave it out where the body is optional.
func mediaType(r *http.Request, optional bool) error {
	for _, enc := range r.Header["Content-Encoding"] {
		if enc != "" && !strings.EqualFold(enc, "identity") {
			return messages.Problemf(messages.CodeMediaType,
				"Content-Encoding %q is not taken; send plain JSON without it", clip(enc))
		}
	}
	text := r.Header.Get("Content-Type")
	if text == "application/json" || (text == "" && optional && r.ContentLength == 0) {
		return nil
	}
	kind, params, err := mime.ParseMediaType(text)
	charset := params["charset"]
	if err != nil || kind != "application/json" || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return messages.Problemf(messages.CodeMediaType,
			"Content-Type is %q; send application/json in UTF-8", clip(text))
	}
	return nil
}

// readBody fills buf with the body.
func (c *call) readBody(buf *bytes.Buffer) error {
	if n := c.r.ContentLength; n > 0 && n <= c.max {
		buf.Grow(int(min(n, keepBuffer)) + bytes.MinRead)
	}
	return c.body(func(from *bodyReader) error {
		from.part = c.max + 1
		_, err := buf.ReadFrom(from)
		return err
	})
}

// body has read take the body, in bounded time and up to the route's limit. Once it is read the deadline is lifted: the connection
// is watched for the caller's leaving while a long poll runs. Where read gives up, the deadline stays: drain has its own, and the
// server too reads what is left, up to a bound.
func (c *call) body(read func(from *bodyReader) error) error {
	if c.place.isFull() {
		return c.place.full()
	}
	if c.r.ContentLength > c.max {
		return tooLarge(c.max)
	}
	control := http.NewResponseController(c.w)
	limit := bodyTime
	if c.max > BodyMax {
		limit = batchTime
	}
	// A writer without deadlines, as in a test, has no slow caller either.
	_ = control.SetReadDeadline(time.Now().Add(limit))
	c.begun = true
	if err := read(&bodyReader{from: c.r.Body, hold: &c.hold, max: c.max}); err != nil {
		return err
	}
	c.read = true
	_ = control.SetReadDeadline(time.Time{})
	return nil
}

// drain throws away what has not been read of a refused call's body, in bounded time and up to a bound, so that the caller sees
// the answer: the server closes the connection before a larger rest, and who still writes sees that alone. It does so for
// callers who have shown who they are, and not where one waits to be asked for the body: that one has not sent it.
func (c *call) drain() {
	switch {
	case !c.known, c.read, c.r.ContentLength == 0, c.whole.Err() != nil:
		return
	case !c.begun && c.r.Header.Get("Expect") != "":
		return
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(drainTime))
	_, _ = io.CopyN(io.Discard, c.r.Body, max(drainMax, c.max))
}

func tooLarge(max int64) *messages.Problem {
	p := messages.Problemf(messages.CodeBodyTooLarge, "the body is larger than %d bytes; send less at once", max)
	p.Details = map[string]any{"limit_bytes": max}
	return p
}

// decodeStrict reads exactly one JSON value. Problems call it what.
func decodeStrict(what string, b []byte, v any) error {
	if !utf8.Valid(b) {
		return messages.Problemf(messages.CodeInvalidJSON, "%s is not UTF-8", what)
	}
	if p := checkShape(what, b, v); p != nil {
		return p
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeProblem(what, err)
	}
	if rest := bytes.TrimLeft(b[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return goesOn(what, len(b)-len(rest))
	}
	return nil
}

func goesOn(what string, at int) *messages.Problem {
	return messages.Problemf(messages.CodeInvalidJSON, "%s goes on after its JSON value, at byte %d", what, at)
}

// decodeProblem says in the caller's words what encoding/json found.
func decodeProblem(what string, err error) *messages.Problem {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	text := err.Error()
	switch {
	case errors.As(err, &syntax):
		return messages.Problemf(messages.CodeInvalidJSON, "%s is not JSON: %s (byte %d)", what, clip(text), syntax.Offset)
	case errors.As(err, &kind):
		field := kind.Field
		if field == "" {
			field = what
		}
		return invalid("%s: want %s, got %s", clip(field), wanted(kind), clip(kind.Value))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return messages.Problemf(messages.CodeInvalidJSON, "%s ends in the middle of its JSON", what)
	case strings.HasPrefix(text, "json: unknown field "):
		name := strings.TrimPrefix(text, "json: unknown field ")
		if plain, err := strconv.Unquote(name); err == nil {
			name = plain
		}
		return unknownField(name)
	}
	return invalid("%s: %s", what, clip(strings.TrimPrefix(text, "json: ")))
}

func unknownField(name string) *messages.Problem {
	p := messages.Problemf(messages.CodeUnknownField, "unknown field %q; /openapi.json lists the known ones", clip(name))
	p.Details = map[string]any{"field": clip(name)}
	return p
}

// wanted names the JSON type that a Go type is read from.
func wanted(e *json.UnmarshalTypeError) string {
	switch name := fmt.Sprint(e.Type.Kind()); {
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"):
		return "a whole number"
	case strings.HasPrefix(name, "float"):
		return "a number"
	case name == "string":
		return "text"
	case name == "bool":
		return "true or false"
	case name == "slice", name == "array":
		return "a list"
	}
	return "an object"
}
