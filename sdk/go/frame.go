package worker

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
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
		return request{}, fmt.Errorf("a frame is not a request: %w", err)
	}
	return r, nil
}

func (s *server) answer(id uint64, data any, closing bool) error {
	return s.emit(map[string]any{"event": "result", "id": id, "data": data, "close": closing})
}

func (s *server) fail(id uint64, e *Error, closing bool) error {
	err := s.emit(map[string]any{"event": "error", "id": id, "error": e, "close": closing})
	if err != nil && e.Details != nil { // details that are not JSON must not hide the error
		return s.fail(id, &Error{Code: e.Code, Message: e.Message, Retriable: e.Retriable, WorkerFault: e.WorkerFault}, closing)
	}
	return err
}

// emit writes one whole frame. Frames of the run and of the loop share the pipe.
func (s *server) emit(event any) error {
	body, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if len(body) > frameMax {
		return fmt.Errorf("an event of %d bytes is above the frame limit of %d", len(body), frameMax)
	}
	frame := append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write(frame); err != nil {
		return fmt.Errorf("write an event: %w", err)
	}
	return nil
}
