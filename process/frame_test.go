package process

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

// still is a reader without deadlines.
type still struct{ io.Reader }

func (still) SetReadDeadline(time.Time) error { return nil }

func frameOf(payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func TestDecodeEvent(t *testing.T) {
	t.Parallel()
	yes := true
	for payload, want := range map[string]Event{
		`{"event":"result","id":7,"data":{"a":1}}`:                 Reply{ID: 7, Result: json.RawMessage(`{"a":1}`)},
		`{"event":"result","id":7,"close":true}`:                   Reply{ID: 7, Result: json.RawMessage(`null`), Close: true},
		` {"event":"result","id":7,"data":null,"new":1}`:           Reply{ID: 7, Result: json.RawMessage(`null`)},
		`{"event":"progress","id":1,"fraction":0.5,"message":"m"}`: Progress{ID: 1, Fraction: 0.5, Message: "m"},
		`{"event":"progress","id":1,"fraction":null}`:              Progress{ID: 1, Fraction: -1},
		`{"event":"progress","id":1,"fraction":7}`:                 Progress{ID: 1, Fraction: 1},
		`{"event":"progress","id":1,"fraction":-7}`:                Progress{ID: 1, Fraction: 0},
		`{"event":"chunk","id":2,"data":[1]}`:                      Chunk{ID: 2, Data: json.RawMessage(`[1]`)},
		`{"event":"log","level":"warn","message":"hot"}`:           Log{Level: "warn", Message: "hot"},
		`{"event":"log","id":3,"level":"shout","message":"x"}`:     Log{ID: 3, Level: "info", Message: "x"},
		`{"event":"error","id":9,"error":{"code":"c","message":"m","retriable":true,"worker_fault":true,"details":{},"failed_by":"me"}}`: Reply{ID: 9,
			Err: &messages.Error{Code: "c", Message: "m", Retriable: &yes, WorkerFault: true, Details: json.RawMessage(`{}`)}},
		`{"event":"error","id":9,"error":{"message":"m","type":"KeyError","retriable":false,"class":"mine","no_retry":"x"}}`: Reply{ID: 9,
			Err: &messages.Error{Code: messages.CodeActionError, Message: "m", Type: "KeyError", Retriable: new(bool)}},
		`{"event":"error","id":9,"error":{"message":"m","type":"E","types":["E","Base"]}}`: Reply{ID: 9,
			Err: &messages.Error{Code: messages.CodeActionError, Message: "m", Type: "E", Types: []string{"E", "Base"}}},
		`{"event":"fault","id":0,"execution":"019a0000-0000-7000-8000-000000000001","attempt":2,"error":{"code":"c","message":"m"}}`: Fault{
			Execution: executionID(t, "019a0000-0000-7000-8000-000000000001"), Attempt: 2, Err: &messages.Error{Code: "c", Message: "m"}},
		`{"event":"fault","execution":"","attempt":0,"error":{"message":"m"}}`:       Fault{Err: &messages.Error{Code: messages.CodeActionError, Message: "m"}},
		`{"event":"fault","execution":"nobody","attempt":2,"error":{"message":"m"}}`: Fault{Err: &messages.Error{Code: messages.CodeActionError, Message: "m"}},
		`{"event":"error","id":9,"error":{"message":"m"}}`:                           Reply{ID: 9, Err: &messages.Error{Code: messages.CodeActionError, Message: "m"}},
	} {
		got, err := decodeEvent([]byte(payload))
		require.NoError(t, err, payload)
		require.Equal(t, want, got, payload)
	}
}

func executionID(t *testing.T, text string) messages.ExecutionID {
	t.Helper()
	id, err := messages.ParseExecutionID(text)
	require.NoError(t, err)
	return id
}

func TestDecodeEventRefuses(t *testing.T) {
	t.Parallel()
	for payload, reason := range map[string]string{
		`[1]`:                                  `not a JSON object: "[1]"`,
		`null`:                                 `not a JSON object`,
		"   ":                                  `not a JSON object`,
		`{"event":"result"`:                    `not an event`,
		`{"event":"result","id":1} x`:          `not an event`,
		`{"event":"result","id":-1}`:           `event "result" has no id`,
		`{"event":"result"}`:                   `event "result" has no id`,
		`{"event":"error","id":1}`:             `has no error object`,
		`{"event":"fault","id":0}`:             `event "fault" has no error object`,
		`{"event":"dance","id":1}`:             `unknown event "dance"`,
		`{}`:                                   `unknown event ""`,
		"{\"event\":\"\xff\"}":                 `unknown event`,
		"{\"event\":\"\xff":                    `it is not UTF-8`,
		`{"event":"result","id":1,"data":[1,}`: `not an event`,
		`{"event":"result","id":NaN,"data":1}`: `event "result" has no id`,
	} {
		_, err := decodeEvent([]byte(payload))
		var fault *brokenError
		require.ErrorAs(t, err, &fault, payload)
		require.ErrorContains(t, err, reason)
		require.Less(t, len(err.Error()), 600, "a reason is bounded")
	}
}

// A value that is no JSON is an error of its request, and takes nothing else of the frame with it.
func TestDecodeEventKeepsWhatItCan(t *testing.T) {
	t.Parallel()
	notJSON := func(what, why string) *messages.Error {
		return &messages.Error{Code: messages.CodeResultNotJSON, Message: "the " + what + " is not JSON: " + why, Retriable: new(bool)}
	}
	const nan = " is NaN, which JSON has no number for"
	left := func(why string) json.RawMessage {
		return json.RawMessage(`"left out: the details are not JSON: ` + why + `"`)
	}
	digits := strings.Repeat("7", 1001)
	for payload, want := range map[string]Event{
		`{"event":"result","id":7,"data":{"a":[NaN]},"close":true}`: Reply{ID: 7, Err: notJSON("result", "/a/0"+nan), Close: true},
		`{"event":"result","id":7,"data":{"a":1,"a":2}}`:            Reply{ID: 7, Err: notJSON("result", "/a is there twice in one object")},
		`{"event":"result","id":7,"data":"\ud800"}`:                 Reply{ID: 7, Err: notJSON("result", "the text has half of a surrogate pair, which is no character")},
		"{\"event\":\"result\",\"id\":7,\"data\":[\"\xff\"]}":       Reply{ID: 7, Err: notJSON("result", "/0 is not UTF-8")},
		`{"event":"result","id":7,"data":{"n":` + digits + `}}`:     Reply{ID: 7, Err: notJSON("result", "/n is a number of 1001 digits, more than the 1000 that one may have; send it as a text")},
		`{"event":"chunk","id":2,"data":-Infinity}`:                 Chunk{ID: 2, Err: notJSON("chunk", "the text is -Infinity, which JSON has no number for")},
		`{"event":"chunk","id":1,"data":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`: Chunk{ID: 1,
			Err: notJSON("chunk", strings.Repeat("/0", 100)+" is nested deeper than 100 levels")},
		`{"event":"progress","id":1,"fraction":NaN,"message":"m"}`: Progress{ID: 1, Fraction: -1, Message: "m"},
		"{\"event\":\"log\",\"id\":3,\"message\":\"a\xff\"}":       Log{ID: 3, Level: "info", Message: "a\uFFFD"},
		`{"event":"error","id":9,"error":{"code":"c","message":"m","type":"T","types":["T","Base"],"retriable":false,"worker_fault":true,"details":{"v":NaN}}}`: Reply{ID: 9,
			Err: &messages.Error{Code: "c", Message: "m", Type: "T", Types: []string{"T", "Base"}, Retriable: new(bool), WorkerFault: true, Details: left("/v" + nan)}},
		`{"event":"error","id":9,"error":{"code":"c","message":5,"types":"T","details":{"v":1,"v":2}}}`: Reply{ID: 9,
			Err: &messages.Error{Code: "c", Message: "5", Details: left("/v is there twice in one object")}},
		`{"event":"error","id":9,"error":{"code":"c","message":"m","details":{"v":"\ud800"}}}`: Reply{ID: 9,
			Err: &messages.Error{Code: "c", Message: "m", Details: left("/v has half of a surrogate pair, which is no character")}},
		`{"event":"fault","id":0,"attempt":2,"error":{"message":"m","details":NaN}}`: Fault{
			Err: &messages.Error{Code: messages.CodeActionError, Message: "m", Details: left("the text" + nan)}},
	} {
		got, err := decodeEvent([]byte(payload))
		require.NoError(t, err, "%.90s", payload)
		require.Equal(t, want, got, "%.90s", payload)
	}
}

// What is longer than a frame may be is an error of its request, and the stream goes on behind it.
func TestReaderPassesOverALargeFrame(t *testing.T) {
	t.Parallel()
	const limit = 200_000
	long := strings.Repeat("x", limit)
	large := func(what string, size int) *messages.Error {
		return &messages.Error{Code: messages.CodeResultTooLarge, Retriable: new(bool),
			Message: fmt.Sprintf("the %s has %d bytes with its frame, more than the 200000 that a frame may have; return a reference instead", what, size)}
	}
	failure := func(code messages.Code, message string, size int) *messages.Error {
		return &messages.Error{Code: code, Message: message,
			Details: json.RawMessage(fmt.Sprintf(`"left out: the error has %d bytes with its frame, more than the 200000 that a frame may have"`, size))}
	}
	for payload, want := range map[string]func(size int) Event{
		`{"event":"result","id":7,"data":"` + long + `"}`:  func(n int) Event { return Reply{ID: 7, Err: large("result", n)} },
		`{"event":"chunk","id":7,"data":["` + long + `"]}`: func(n int) Event { return Chunk{ID: 7, Err: large("chunk", n)} },
		`{"event":"log","message":"` + long + `"}`: func(n int) Event {
			return Log{Level: "warn", Message: fmt.Sprintf("a log event of %d bytes is left out", n)}
		},
		`{"event":"fault","id":0,"error":{"code":"c","message":"` + long:               func(n int) Event { return Fault{Err: failure("c", strings.Repeat("x", messages.ErrorMessageMax-1), n)} },
		`{"event":"error","id":8,"error":{"code":"c","message":"m","details":"` + long: func(n int) Event { return Reply{ID: 8, Err: failure("c", "m", n)} },
		`{"event":"error","id":8,"error":{"details":"` + long + `","code":"c"}}`: func(n int) Event {
			return Reply{ID: 8, Err: failure(messages.CodeActionError, "the error is too large to be told", n)}
		},
	} {
		raw := append(frameOf(payload), frameOf(`{"event":"log","message":"after"}`)...)
		for _, src := range []io.Reader{bytes.NewReader(raw), iotest.HalfReader(bytes.NewReader(raw)), bytes.NewBuffer(raw)} {
			r := newFrameReader(still{src}, limit)
			got, err := r.event()
			require.NoError(t, err)
			require.Equal(t, want(len(payload)), got, "%.80s", payload)
			got, err = r.event()
			require.NoError(t, err)
			require.Equal(t, Log{Level: "info", Message: "after"}, got)
			require.Less(t, len(r.buf), 2*headMax, "the frame was not kept")
		}
	}
	for name, payload := range map[string]string{"no id": `{"event":"result","data":"` + long, "no event": `{"data":"` + long, "no object": long + "x"} {
		_, err := newFrameReader(still{bytes.NewReader(frameOf(payload))}, limit).event()
		require.ErrorContains(t, err, "is outside 1 to 200000", name)
	}
	_, err := newFrameReader(still{bytes.NewReader(frameOf(`{"event":"result","id":7,"data":"` + long)[:150_000])}, limit).event()
	require.ErrorContains(t, err, "the pipe ended within a frame: 150000 of 200037 bytes came")
}

func TestReaderRefusesLengths(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string][]byte{
		"zero":     {0, 0, 0, 0},
		"one over": append(binary.BigEndian.AppendUint32(nil, messages.FrameMax+1), 'x'),
		"garbage":  []byte("Traceback (most recent call last):"),
	} {
		r := newFrameReader(still{bytes.NewReader(raw)}, messages.FrameMax)
		_, err := r.next()
		require.ErrorContains(t, err, "outside 1 to 16777216", name)
		require.Len(t, r.buf, readBuffer, "nothing was allocated for %s", name)
	}
}

func TestReaderDoesNotTrustTheLength(t *testing.T) {
	t.Parallel()
	raw := append(binary.BigEndian.AppendUint32(nil, messages.FrameMax), '{')
	r := newFrameReader(still{bytes.NewReader(raw)}, messages.FrameMax)
	_, err := r.next()
	require.ErrorContains(t, err, "ended within a frame: 5 of 16777220 bytes came")
	require.LessOrEqual(t, len(r.buf), readBuffer+growStep)
}

func TestReaderEnds(t *testing.T) {
	t.Parallel()
	r := newFrameReader(still{bytes.NewReader(nil)}, 100)
	_, err := r.next()
	require.ErrorIs(t, err, io.EOF)
	var fault *brokenError
	require.False(t, errors.As(err, &fault), "an end between frames is no fault")
}

// The reader returns the frames that were written, however the stream is split.
func TestReaderFindsEveryFrame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		payloads := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 1, 40_000)).Draw(t, "payloads")
		var raw []byte
		for _, p := range payloads {
			raw = append(raw, frameOf(string(p))...)
		}
		var src io.Reader = bytes.NewReader(raw)
		switch rapid.SampledFrom([]string{"whole", "half", "byte"}).Draw(t, "pieces") {
		case "half":
			src = iotest.HalfReader(src)
		case "byte":
			src = iotest.OneByteReader(src)
		}
		r := newFrameReader(still{src}, messages.FrameMax)
		for _, want := range payloads {
			got, err := r.next()
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		_, err := r.next()
		require.ErrorIs(t, err, io.EOF)
	})
}

func TestReaderLetsABigBufferGo(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 9<<20)
	r := newFrameReader(still{bytes.NewReader(append(frameOf(big), frameOf("small")...))}, messages.FrameMax)
	got, err := r.next()
	require.NoError(t, err)
	require.Len(t, got, len(big))
	got, err = r.next()
	require.NoError(t, err)
	require.Equal(t, "small", string(got))
	_, err = r.next()
	require.ErrorIs(t, err, io.EOF)
	require.Len(t, r.buf, readBuffer)
}

func TestAppendRequest(t *testing.T) {
	t.Parallel()
	frame, err := appendRequest(nil, 7, `exe"cute`, []byte(`{"a":1}`))
	require.NoError(t, err)
	require.Equal(t, uint32(len(frame)-4), binary.BigEndian.Uint32(frame))
	require.JSONEq(t, `{"id":7,"command":"exe\"cute","args":{"a":1}}`, string(frame[4:]))
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"), 3)
	f.Add(frameOf(`{"event":"result","id":1,"data":1}`), 1)
	f.Add([]byte("\xff\xff\xff\xffgarbage"), 9)
	f.Fuzz(func(t *testing.T, raw []byte, limit int) {
		limit = max(1, limit%messages.FrameMax)
		r := newFrameReader(still{bytes.NewReader(raw)}, limit)
		total := 0
		for {
			payload, err := r.next()
			if err != nil {
				return
			}
			if len(payload) == 0 || len(payload) > limit {
				t.Fatalf("a frame of %d bytes passed the limit of %d", len(payload), limit)
			}
			if total += headerLen + len(payload); total > len(raw) {
				t.Fatalf("%d bytes of frames came out of %d", total, len(raw))
			}
		}
	})
}

func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"event":"result","id":1,"data":{"a":[1,2]}}`))
	f.Add([]byte(`{"event":"error","id":1,"error":{"code":"c","message":"m"}}`))
	f.Add([]byte(`{"event":"progress","id":1,"fraction":1e308}`))
	f.Add([]byte(`{"event":"result","id":1,"data":{"a":NaN}}`))
	f.Add([]byte("{\"event\":\"log\",\"message\":\"\xff\\u12"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		_, _ = keptOfLarge(payload, 1, 1)
		event, err := decodeEvent(payload)
		if err != nil {
			var fault *brokenError
			if !errors.As(err, &fault) || !utf8.ValidString(fault.reason) {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if p, ok := event.(Progress); ok && p.Fraction != -1 && (p.Fraction < 0 || p.Fraction > 1) {
			t.Fatalf("fraction %v", p.Fraction)
		}
		if r, ok := event.(Reply); ok && r.Err == nil && messages.CheckJSON(r.Result) != nil {
			t.Fatalf("result is not JSON: %q", r.Result)
		}
	})
}

func FuzzPackets(f *testing.F) {
	spawn, err := (&spawnRequest{seq: 1, path: "/bin/sh", argv: []string{"sh"}, env: []string{"A=b"}, framed: true}).packet()
	require.NoError(f, err)
	f.Add(spawn[packetHeader:])
	f.Fuzz(func(t *testing.T, body []byte) {
		if s, err := decodeSpawn(body); err == nil {
			packet, err := s.packet()
			require.NoError(t, err)
			again, err := decodeSpawn(packet[packetHeader:])
			require.NoError(t, err)
			require.Equal(t, s, again)
		}
		_, _ = decodeExit(body)
	})
}
