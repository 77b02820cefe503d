package process

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupe-run/troupe/messages"
)

const (
	headerLen = 4
	// silenceTime is how long a program may send nothing in the middle of a frame.
	silenceTime = 10 * time.Second
	// frameBase and frameRate, in bytes a second, bound the time of a whole frame, so that a frame that arrives byte by
	// byte also has an end. It matters for a program that stops in the middle of a frame while another thread answers
	// pings: its bytes look like a slow frame.
	frameBase = 15 * time.Second
	frameRate = 256 << 10
	// readBuffer is the reader's usual buffer size. A buffer that grew for a large frame is released after that frame.
	readBuffer = 16 << 10
	// growStep bounds how far the buffer grows ahead of the bytes that have arrived, so that a large length alone takes
	// no memory.
	growStep = 1 << 20
	clipMax  = 64   // bytes of the program's text that a reason shows
	clipMark = `"…` // the end of a text that was cut
)

// brokenError is a violation of the frame protocol. Its reason is for people.
type brokenError struct{ reason string }

func (e *brokenError) Error() string { return e.reason }

func broken(format string, args ...any) error {
	return &brokenError{reason: fmt.Sprintf(format, args...)}
}

// deadlineReader is the reading end of a pipe.
type deadlineReader interface {
	io.Reader
	SetReadDeadline(t time.Time) error
}

// frameReader splits a stream into frames. A returned frame is valid until the next call.
type frameReader struct {
	src      deadlineReader
	max      int
	buf      []byte
	from, to int       // the unread bytes are buf[from:to]
	timed    bool      // a deadline is set, because a frame has begun
	begun    time.Time // when the frame began
	heard    time.Time // when its last bytes arrived
}

// frameTime is how long a frame of n bytes may take: 79 s for one of 16 MiB.
func frameTime(n int) time.Duration {
	return frameBase + time.Duration(n)*time.Second/frameRate
}

func newFrameReader(src deadlineReader, limit int) *frameReader {
	return &frameReader{src: src, max: limit, buf: make([]byte, readBuffer)}
}

// next returns the payload of the next frame. io.EOF means that the stream ended between two frames. A *largeFrame is one that is
// too long, behind which the stream goes on. A *brokenError means that the stream breaks the protocol.
func (r *frameReader) next() ([]byte, error) {
	need := headerLen
	for {
		if r.to-r.from >= headerLen {
			size := int64(binary.BigEndian.Uint32(r.buf[r.from:]))
			if size == 0 || size > int64(r.max) {
				return nil, r.large(size)
			}
			need = headerLen + int(size)
		}
		if r.to-r.from >= need {
			return r.take(need), r.untime()
		}
		if err := r.fill(need); err != nil {
			return nil, err
		}
	}
}

// take removes a whole frame of n bytes from the buffer and returns its payload.
func (r *frameReader) take(n int) []byte {
	payload := r.buf[r.from+headerLen : r.from+n]
	r.from += n
	return payload
}

// fill makes room for more of a frame of n bytes, then reads once.
func (r *frameReader) fill(n int) error {
	r.room(n)
	if err := r.time(n); err != nil {
		return err
	}
	got, err := r.src.Read(r.buf[r.to:])
	r.to += got
	if got > 0 || err == nil {
		return nil
	}
	return r.ended(err, r.to-r.from, n)
}

// ended returns the error of a stream that ended, or was silent, when partial of a frame's n bytes had come.
func (r *frameReader) ended(err error, partial, n int) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && partial > 0 && time.Since(r.heard) >= silenceTime:
		return broken("half a frame and then silence for %s: %d of %d bytes came, beginning %s",
			silenceTime, partial, n, clip(r.buf[r.from:r.to]))
	case errors.Is(err, os.ErrDeadlineExceeded) && partial > 0 && time.Since(r.begun) >= frameTime(n):
		return broken("a frame was not whole after %s, though bytes kept coming: %d of %d came, beginning %s",
			frameTime(n).Round(time.Second), partial, n, clip(r.buf[r.from:r.to]))
	case errors.Is(err, io.EOF) && partial > 0:
		return broken("the pipe ended within a frame: %d of %d bytes came, beginning %s", partial, n, clip(r.buf[r.from:r.to]))
	}
	return err
}

// time sets the deadline for the next bytes of a frame of n bytes that has begun.
func (r *frameReader) time(n int) error {
	if r.from == r.to {
		return nil
	}
	r.heard = time.Now()
	if !r.timed {
		r.timed, r.begun = true, r.heard
	}
	return r.src.SetReadDeadline(earlier(r.heard.Add(silenceTime), r.begun.Add(frameTime(n))))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// untime lifts the deadline once the frame is complete.
func (r *frameReader) untime() error {
	if !r.timed {
		return nil
	}
	r.timed = false
	return r.src.SetReadDeadline(time.Time{})
}

// room moves the unread bytes to the front and grows the buffer toward n bytes, at most growStep past what has come.
func (r *frameReader) room(n int) {
	if r.from > 0 {
		r.to = copy(r.buf, r.buf[r.from:r.to])
		r.from = 0
	}
	if len(r.buf) > 4*growStep && n <= readBuffer {
		r.buf = append(make([]byte, 0, readBuffer), r.buf[:r.to]...)[:readBuffer:readBuffer]
	}
	if r.to < len(r.buf) {
		return
	}
	size := min(n, max(2*len(r.buf), min(len(r.buf)+growStep, n)))
	grown := make([]byte, max(size, len(r.buf)+1))
	copy(grown, r.buf[:r.to])
	r.buf = grown
}

// wireEvent has every field that an event can have.
type wireEvent struct {
	Event    string          `json:"event"`
	ID       *uint64         `json:"id"`
	Data     json.RawMessage `json:"data"`
	Error    *wireError      `json:"error"`
	Close    bool            `json:"close"`
	Fraction *float64        `json:"fraction"`
	Message  string          `json:"message"`
	Level    string          `json:"level"`
	// Execution and Attempt are a fault's: it belongs to a run, and to no request.
	Execution string `json:"execution"`
	Attempt   int64  `json:"attempt"`
}

// wireError has the fields of an error that a program may set. Troupe sets the other fields of messages.Error.
type wireError struct {
	Code        messages.Code   `json:"code"`
	Message     string          `json:"message"`
	Type        string          `json:"type"`
	Types       []string        `json:"types"`
	Retriable   *bool           `json:"retriable"`
	WorkerFault bool            `json:"worker_fault"`
	Details     json.RawMessage `json:"details"`
}

// decodeEvent decodes one frame's payload. The event shares no memory with the payload. Every error is a *brokenError.
func decodeEvent(payload []byte) (Event, error) {
	trimmed := bytes.TrimLeft(payload, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, broken("a frame is not a JSON object: %s", clip(payload))
	}
	var e wireEvent
	err := errNotUTF8
	if utf8.Valid(payload) {
		err = json.Unmarshal(payload, &e)
	}
	if err == nil {
		return e.event(payload)
	}
	if kept, ok := keptOf(payload); ok {
		return kept.event(payload)
	}
	return nil, broken("a frame is not an event: %v: %s", err, clip(payload))
}

var errNotUTF8 = errors.New("it is not UTF-8")

// event returns the event that the fields describe.
func (e *wireEvent) event(payload []byte) (Event, error) {
	if e.ID == nil && isEventName(e.Event) {
		return nil, broken("event %q has no id: %s", e.Event, clip(payload))
	}
	switch e.Event {
	case "result":
		if p := messages.CheckJSON(orNull(e.Data)); p != nil {
			return Reply{ID: *e.ID, Err: messages.NotJSON("result", p), Close: e.Close}, nil
		}
		return Reply{ID: *e.ID, Result: orNull(e.Data), Close: e.Close}, nil
	case "error", "fault":
		if e.Error == nil {
			return nil, broken("event %q has no error object: %s", e.Event, clip(payload))
		}
		if e.Event == "fault" {
			return e.fault(), nil
		}
		return Reply{ID: *e.ID, Err: e.Error.message(), Close: e.Close}, nil
	case "progress":
		return Progress{ID: *e.ID, Fraction: fraction(e.Fraction), Message: e.Message}, nil
	case "chunk":
		if p := messages.CheckJSON(orNull(e.Data)); p != nil {
			return Chunk{ID: *e.ID, Err: messages.NotJSON("chunk", p)}, nil
		}
		return Chunk{ID: *e.ID, Data: orNull(e.Data)}, nil
	case "log":
		return Log{ID: orZero(e.ID), Level: level(e.Level), Message: e.Message}, nil
	}
	return nil, broken("unknown event %s: want result, error, progress, chunk, log or fault: %s", clip([]byte(e.Event)), clip(payload))
}

// fault returns the fault that the fields describe. One whose run cannot be read is the worker's own: a wrong name of it is no
// reason to lose what failed.
func (e *wireEvent) fault() Fault {
	id, err := messages.ParseExecutionID(e.Execution)
	if err != nil || e.Attempt < 0 || e.Attempt > math.MaxInt32 {
		return Fault{Err: e.Error.message()}
	}
	return Fault{Execution: id, Attempt: messages.Attempt(e.Attempt), Err: e.Error.message()}
}

// isEventName reports whether the event belongs to a request, whose id it has.
func isEventName(name string) bool {
	switch name {
	case "result", "error", "progress", "chunk":
		return true
	}
	return false
}

func (e *wireError) message() *messages.Error {
	code := e.Code
	if code == "" {
		code = messages.CodeActionError
	}
	err := messages.Error{Code: code, Message: e.Message, Type: e.Type, Types: e.Types, Retriable: e.Retriable, WorkerFault: e.WorkerFault, Details: e.Details}
	return err.Detailed()
}

// orNull returns JSON null for missing data.
func orNull(data json.RawMessage) json.RawMessage {
	if data == nil {
		return json.RawMessage("null")
	}
	return data
}

func orZero(id *uint64) uint64 {
	if id == nil {
		return 0
	}
	return *id
}

// fraction clamps the program's value to 0..1. It returns -1 for a missing value.
func fraction(f *float64) float64 {
	if f == nil {
		return -1
	}
	return min(1, max(0, *f))
}

// level returns one of the four known levels. It maps any other text to info, because a wrong level is no reason to end
// a worker.
func level(s string) string {
	switch s {
	case "debug", "warn", "error":
		return s
	}
	return "info"
}

// clip quotes the beginning of a program's bytes for a message to people.
func clip(b []byte) string {
	if len(b) > clipMax {
		return strings.TrimSuffix(strconv.QuoteToASCII(string(b[:clipMax])), `"`) + clipMark
	}
	return strconv.QuoteToASCII(string(b))
}

// appendRequest appends one request frame, header included.
func appendRequest(dst []byte, id uint64, command string, args []byte) ([]byte, error) {
	name, err := json.Marshal(command)
	if err != nil {
		return dst, fmt.Errorf("encode command %q: %w", command, err)
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendUint(dst, id, 10)
	dst = append(append(dst, `,"command":`...), name...)
	dst = append(append(dst, `,"args":`...), args...)
	dst = append(dst, '}')
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-headerLen)) //nolint:gosec // bounded by the caller's frame limit
	return dst, nil
}
