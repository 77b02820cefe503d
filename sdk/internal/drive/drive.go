// Package drive runs a worker program over pipes, so that the SDKs' tests and benchmarks measure the protocol without a
// node. It is for tests only; a node uses package process.
package drive

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Worker is one started program. It is for use by one goroutine.
type Worker struct {
	Cmd      *exec.Cmd
	Requests *os.File
	events   *bufio.Reader
	file     *os.File
	last     uint64
}

// Event is any message from a worker.
type Event struct {
	Event    string          `json:"event"`
	ID       uint64          `json:"id"`
	Data     json.RawMessage `json:"data"`
	Error    *Failure        `json:"error"`
	Close    bool            `json:"close"`
	Fraction *float64        `json:"fraction"`
	Level    string          `json:"level"`
	Message  string          `json:"message"`
}

// Failure is the error of an event.
type Failure struct {
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	Retriable *bool           `json:"retriable"`
	Details   json.RawMessage `json:"details"`
}

// Start starts argv with env added to this process's environment.
func Start(env []string, argv ...string) (*Worker, error) {
	in, requests, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	events, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.ExtraFiles = []*os.File{in, out}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	err = cmd.Start()
	in.Close()
	out.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return &Worker{Cmd: cmd, Requests: requests, events: bufio.NewReaderSize(events, 64<<10), file: events}, nil
}

// Send writes one request and returns its id.
func (w *Worker) Send(command string, args any) (uint64, error) {
	w.last++
	body, err := json.Marshal(map[string]any{"id": w.last, "command": command, "args": args})
	if err != nil {
		return 0, err
	}
	_, err = w.Requests.Write(Frame(body))
	return w.last, err
}

// Frame returns body with its length in front.
func Frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
}

// ReadRaw returns the next frame's body, valid until the next call.
func (w *Worker) ReadRaw() ([]byte, error) {
	head, err := w.events.Peek(4)
	if err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head))
	if _, err := w.events.Discard(4); err != nil {
		return nil, err
	}
	body := make([]byte, size)
	_, err = io.ReadFull(w.events, body)
	return body, err
}

// Read returns the next event.
func (w *Worker) Read() (Event, error) {
	body, err := w.ReadRaw()
	if err != nil {
		return Event{}, err
	}
	var e Event
	return e, json.Unmarshal(body, &e)
}

// Close closes the request pipe, which ends the worker, and waits for it.
func (w *Worker) Close() error {
	w.Requests.Close()
	defer w.file.Close()
	return w.Cmd.Wait()
}
