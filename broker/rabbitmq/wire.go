package rabbitmq

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// wireMax bounds the bytes that wait for a server that does not read. Beyond it, writers wait.
const wireMax = 1 << 20

// closeWriteMax bounds the last write when a connection is closed.
const closeWriteMax = 200 * time.Millisecond

// wire is a connection that collects writes: while one write is under way, the next ones are collected, so that
// thousands of small frames need few system calls. A failed read or write ends it for writers too. Otherwise the
// library would wait for a writer that waits for a dead server.
type wire struct {
	net.Conn
	closeWithin time.Duration

	mu      sync.Mutex
	changed sync.Cond
	buffer  []byte // bytes not written yet
	closing bool
	err     error
	ended   chan struct{} // closed when the writing goroutine has ended
}

func newWire(c net.Conn) *wire {
	w := &wire{Conn: c, closeWithin: closeWriteMax, ended: make(chan struct{})}
	w.changed.L = &w.mu
	go w.run()
	return w
}

// Write implements net.Conn. It copies p, and waits only while wireMax bytes are not written yet.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && !w.closing && len(w.buffer) >= wireMax {
		w.changed.Wait()
	}
	if w.err != nil {
		return 0, w.err
	}
	if w.closing {
		return 0, net.ErrClosed
	}
	w.buffer = append(w.buffer, p...)
	w.changed.Broadcast()
	return len(p), nil
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.fail(err)
	}
	return n, err
}

// Close implements net.Conn. It first writes the collected bytes, within closeWithin.
func (w *wire) Close() error {
	w.mu.Lock()
	w.closing = true
	w.changed.Broadcast()
	w.mu.Unlock()
	_ = w.Conn.SetWriteDeadline(time.Now().Add(w.closeWithin)) // if it fails, the write below fails too
	<-w.ended
	return w.Conn.Close()
}

func (w *wire) run() {
	defer close(w.ended)
	var out []byte
	for {
		out = w.next(out[:0])
		if len(out) == 0 {
			return
		}
		if _, err := w.Conn.Write(out); err != nil {
			w.fail(err)
			return
		}
	}
}

// next waits for bytes to write and returns all of them. spare is the next buffer. It returns nothing at the end.
func (w *wire) next(spare []byte) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && !w.closing && len(w.buffer) == 0 {
		w.changed.Wait()
	}
	if w.err != nil {
		return nil
	}
	out := w.buffer
	w.buffer = spare
	w.changed.Broadcast()
	return out
}

func (w *wire) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.changed.Broadcast()
}

// reason returns why the library's handshake failed. For any end of the connection without a reason from the server, the
// library has constants that depend on the step only: it is closed, no access to this vhost, the password is wrong. What
// ended the connection is known here.
func (w *wire) reason(err error) error {
	var answer *amqp.Error
	if errors.Is(err, amqp.ErrSASL) || !errors.As(err, &answer) || answer.Server {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return fmt.Errorf("%w: %w", errCut, w.err)
	}
	return fmt.Errorf("%w: %s", errCut, answer.Reason)
}
