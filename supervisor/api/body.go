package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
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
	drainMax     = 4 << 20           // read and thrown away beyond a limit, so that the caller sees the answer
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
// than parameters may have, and bytes that are no UTF-8 are refused. An empty body is refused unless optional.
func decode(w http.ResponseWriter, r *http.Request, max int64, optional bool, v any) error {
	if err := mediaType(r, optional); err != nil {
		return err
	}
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	defer putBuffer(buf)
	if err := readBody(w, r, max, buf); err != nil {
		return err
	}
	if optional && len(bytes.TrimSpace(buf.Bytes())) == 0 {
		return nil
	}
	return decodeStrict(buf.Bytes(), v)
}

// mediaType wants application/json. A request without a body may leave it out where the body is optional.
func mediaType(r *http.Request, optional bool) error {
	text := r.Header.Get("Content-Type")
	if text == "application/json" || (text == "" && optional && r.ContentLength == 0) {
		return nil
	}
	kind, params, err := mime.ParseMediaType(text)
	charset := params["charset"]
	if err != nil || kind != "application/json" || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return problemf(http.StatusUnsupportedMediaType, CodeMediaType,
			"Content-Type is %q; send application/json in UTF-8", clip(text))
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return problemf(http.StatusUnsupportedMediaType, CodeMediaType, "Content-Encoding %q is not taken; send plain JSON", clip(enc))
	}
	return nil
}

// readBody fills buf with the body, in bounded time. The deadline is lifted afterwards: the connection is watched
// for the caller's leaving while a long poll runs.
func readBody(w http.ResponseWriter, r *http.Request, max int64, buf *bytes.Buffer) error {
	control := http.NewResponseController(w)
	limit := bodyTime
	if max > BodyMax {
		limit = batchTime
	}
	// A writer without deadlines, as in a test, has no slow caller either.
	_ = control.SetReadDeadline(time.Now().Add(limit))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	if r.ContentLength > 0 && r.ContentLength <= max {
		buf.Grow(int(min(r.ContentLength, keepBuffer)) + bytes.MinRead)
	}
	if r.ContentLength <= max {
		if _, err := buf.ReadFrom(io.LimitReader(r.Body, max+1)); err != nil {
			return problemf(http.StatusBadRequest, CodeInvalidRequest, "the body ended before its time: send it whole, within %s", limit)
		}
	}
	if r.ContentLength > max || int64(buf.Len()) > max {
		_, _ = io.CopyN(io.Discard, r.Body, drainMax)
		return tooLarge(max)
	}
	return nil
}

func tooLarge(max int64) *Problem {
	p := problemf(http.StatusRequestEntityTooLarge, CodeBodyTooLarge, "the body is larger than %d bytes; send less at once", max)
	p.Details = map[string]any{"limit_bytes": max}
	return p
}

// decodeStrict reads exactly one JSON value.
func decodeStrict(b []byte, v any) error {
	if !utf8.Valid(b) {
		return problemf(http.StatusBadRequest, CodeInvalidJSON, "the body is not UTF-8")
	}
	if deeper(b, messages.JSONDepthMax+bodyWrap) {
		return tooDeep("the body")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeProblem(err)
	}
	if rest := bytes.TrimLeft(b[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return problemf(http.StatusBadRequest, CodeInvalidJSON, "the body goes on after its JSON value, at byte %d", len(b)-len(rest))
	}
	return nil
}

func tooDeep(what string) *Problem {
	return problemf(http.StatusBadRequest, CodeTooDeep, "%s is nested deeper than %d levels; flatten it", what, messages.JSONDepthMax)
}

// decodeProblem says in the caller's words what encoding/json found.
func decodeProblem(err error) *Problem {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	text := err.Error()
	switch {
	case errors.As(err, &syntax):
		return problemf(http.StatusBadRequest, CodeInvalidJSON, "the body is not JSON: %s (byte %d)", clip(text), syntax.Offset)
	case errors.As(err, &kind):
		field := kind.Field
		if field == "" {
			field = "the body"
		}
		return invalid("%s: want %s, got %s", clip(field), wanted(kind), clip(kind.Value))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return problemf(http.StatusBadRequest, CodeInvalidJSON, "the body ends in the middle of its JSON")
	case strings.HasPrefix(text, "json: unknown field "):
		name := strings.TrimPrefix(text, "json: unknown field ")
		p := problemf(http.StatusBadRequest, CodeUnknownField, "unknown field %s; /openapi.json lists the known ones", clip(name))
		p.Details = map[string]any{"field": strings.Trim(clip(name), `"`)}
		return p
	}
	return invalid("the body: %s", clip(strings.TrimPrefix(text, "json: ")))
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

// deeper reports whether the JSON text nests deeper than max. It reads the text once, allocates nothing and judges
// no grammar, so it can refuse what would be dear to parse.
func deeper(b []byte, max int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > max {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
