package worker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// frameMax bounds the bytes of one frame.
const frameMax = 16 << 20

// readRequest reads one frame. io.EOF: the input has ended, also within a frame.
func readRequest(in io.Reader) (request, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return request{}, io.EOF // also if the node died in the middle of a frame
	}
	size := binary.BigEndian.Uint32(head[:])
	if size == 0 || size > frameMax {
		return request{}, fmt.Errorf("a frame of %d bytes: want 1 to %d", size, frameMax)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(in, body); err != nil {
		return request{}, io.EOF
	}
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return request{}, &undecodable{id: idOf(body), err: err}
	}
	return r, nil
}

// undecodable is a frame of the right length that is no request. id is that of the request, or 0 where that cannot be read.
type undecodable struct {
	id  uint64
	err error
}

func (u *undecodable) Error() string { return fmt.Sprintf("a frame is not a request: %v", u.err) }

// idOf reads the id of a request that cannot be decoded. It comes first.
func idOf(body []byte) uint64 {
	d := json.NewDecoder(bytes.NewReader(body))
	var parts [3]json.Token
	for i := range parts {
		var err error
		if parts[i], err = d.Token(); err != nil {
			return 0
		}
	}
	if id, ok := parts[2].(float64); ok && parts[0] == json.Delim('{') && parts[1] == "id" && id >= 1 && id < 1<<53 {
		return uint64(id)
	}
	return 0
}

func (s *server) answer(id uint64, data any, closing bool) error {
	return s.emit(map[string]any{"event": "result", "id": id, "data": data, "close": closing})
}

// fail answers with an error: whole, then without the details, which may be no JSON or too large, then with a fixed text.
func (s *server) fail(id uint64, e *Error, closing bool) error {
	return s.tell(map[string]any{"event": "error", "id": id, "close": closing}, e)
}

// fault tells a failure that came after its run.
func (s *server) fault(run *Run, e *Error) error {
	if !s.faults.Load() {
		return s.emit(map[string]any{"event": "log", "id": 0, "level": "error", "message": "execution " + run.Execution + ": " + e.Message})
	}
	return s.tell(map[string]any{"event": "fault", "id": 0, "execution": run.Execution, "attempt": run.Attempt}, e)
}

func (s *server) tell(event map[string]any, e *Error) error {
	short := *e
	short.Code, short.Message, short.Type = clip(e.Code, nameMax), clip(e.Message, textMax), clip(e.Type, nameMax)
	bare := short
	bare.Details = nil
	var err error
	for _, told := range []*Error{&short, &bare, {Code: "action_error", Message: "an error that cannot be described"}} {
		event["error"] = told
		if err = s.emit(event); err == nil || errors.Is(err, errPipe) {
			return err
		}
	}
	return err
}

// Bounds on what is told of an error, in bytes.
const (
	textMax = 16 << 10
	nameMax = 128
)

func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

var (
	errTooLarge = errors.New("above the frame limit")
	errPipe     = errors.New("write an event")
)

// emit writes one whole frame. Frames of the run and of the loop share the pipe.
func (s *server) emit(event any) error {
	body, err := encode(event)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if len(body) > frameMax {
		return fmt.Errorf("an event of %d bytes is %w of %d", len(body), errTooLarge, frameMax)
	}
	frame := append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write(frame); err != nil {
		return fmt.Errorf("%w: %w", errPipe, err)
	}
	return nil
}
