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

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// Bounds of a request's body.
const (
	BodyMax      = 3 << 19           // 1.5 MiB, for every request but a batch
	BatchBodyMax = 32 << 20          // 32 MiB
	bodyTime     = 30 * time.Second  // for a body to arrive, from its beginning
	batchTime    = 120 * time.Second // the same for a batch
	drainMax     = 4 << 20           // how much of a refused body is discarded at least, so that the caller gets the answer
	drainTime    = 5 * time.Second   // how long it is discarded
	bodyWrap     = 4                 // nesting around the parameters in a request, and one level that Check reports
	keepBuffer   = 64 << 10          // a larger buffer is not kept for the next request
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= keepBuffer {
		buffers.Put(b)
	}
}

// decode reads the request's JSON body into v. It refuses an unknown field, a second value after the first, nesting
// deeper than parameters may have, and bytes that are not UTF-8. It refuses an empty body unless optional. After it has
// read the body, the call takes its place.
func (c *call) decode(optional bool, v any) error {
	if optional && c.r.ContentLength == 0 {
		return c.enter()
	}
	if err := mediaType(c.r, typeJSON, optional); err != nil {
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

// Media types of bodies.
const (
	typeJSON  = "application/json"
	typeLines = "application/x-ndjson" // one JSON value a line
	// server-sent events
	typeEvents = "text/event-stream"
)

// mediaType requires the media type want. A request without a body may omit it if the body is optional.
func mediaType(r *http.Request, want string, optional bool) error {
	for _, enc := range r.Header["Content-Encoding"] {
		if enc != "" && !strings.EqualFold(enc, "identity") {
			return messages.Problemf(messages.CodeMediaType,
				"Content-Encoding %q is not taken; send plain JSON without it", clip(enc))
		}
	}
	text := r.Header.Get("Content-Type")
	if text == want || (text == "" && optional && r.ContentLength == 0) {
		return nil
	}
	kind, params, err := mime.ParseMediaType(text)
	charset := params["charset"]
	if err != nil || kind != want || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return messages.Problemf(messages.CodeMediaType,
			"Content-Type is %q; send %s in UTF-8", clip(text), want)
	}
	return nil
}

// readBody reads the body into buf.
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

// body calls read with the body, in bounded time and up to the route's limit. Afterwards it removes the deadline,
// because the server watches the connection during a long poll to notice that the caller has left. After an error the
// deadline stays: drain sets its own, and the server also reads the rest, up to a bound.
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
	// A writer without deadlines, as in a test, has no slow caller.
	_ = control.SetReadDeadline(time.Now().Add(limit))
	c.begun = true
	if err := read(&bodyReader{from: c.r.Body, hold: &c.hold, max: c.max}); err != nil {
		return err
	}
	c.read = true
	_ = control.SetReadDeadline(time.Time{})
	return nil
}

// drain discards the unread part of a refused call's body, in bounded time and up to a bound, so that the caller gets
// the answer. If more were unread, the server would close the connection, and a caller that still writes would see only
// that. It drains only for known callers, and not if the caller waits for a 100 Continue and has sent no body.
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

// decodeStrict reads exactly one JSON value. Problems name it by what.
func decodeStrict(what string, b []byte, v any) error {
	if quick(b, v) {
		return nil
	}
	return decodeSlowly(what, b, v)
}

// decodeSlowly is decodeStrict for every value, right or wrong.
func decodeSlowly(what string, b []byte, v any) error {
	if p := messages.CheckJSONWithin(b, messages.JSONDepthMax+bodyWrap); p != nil {
		return submit.InvalidJSON(p, what)
	}
	if p := checkNames(b, v); p != nil {
		return p
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeProblem(what, err)
	}
	return nil
}

func goesOn(what string, at int) *messages.Problem {
	return messages.Problemf(messages.CodeInvalidJSON, "%s goes on after its JSON value, at byte %d", what, at)
}

// decodeProblem describes an error of encoding/json in terms of the request.
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

// wanted returns the JSON type that a Go type is decoded from.
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
