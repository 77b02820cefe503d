package rabbitmq

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Bounds of a session.
const (
	// controlMax bounds the control channels, and so the requests under way.
	controlMax = 4
	// flushMax bounds the wait for consumers that send their last settlements when the broker is closed.
	flushMax = time.Second
	// closeMax bounds the handshake that closes a connection.
	closeMax = 2 * time.Second
)

// session is one connection from its start to its end.
type session struct {
	connection *amqp.Connection
	logger     hclog.Logger
	closes     chan *amqp.Error
	blocks     chan amqp.Blocking
	noted      func() // called when the status may have changed
	gate       gate
	idle       chan *amqp.Channel // control channels that wait for their next use
	controls   chan struct{}      // one entry for each request under way

	over      chan struct{} // closed when the session ends, before the connection is closed
	cause     error         // reason of the end; set before over is closed
	joins     sync.Mutex    // held where consumers join, and where the session ends: none may join those that are waited for
	consumers sync.WaitGroup
	lanes     sync.WaitGroup
}

func newSession(c *amqp.Connection, logger hclog.Logger, noted func()) *session {
	return &session{
		connection: c, logger: logger, noted: noted, over: make(chan struct{}),
		closes: c.NotifyClose(make(chan *amqp.Error, 1)), blocks: c.NotifyBlocked(make(chan amqp.Blocking, 4)),
		gate: gate{shut: make(chan struct{})},
		idle: make(chan *amqp.Channel, controlMax), controls: make(chan struct{}, controlMax),
	}
}

// wait waits until the connection or ctx ends, and returns why.
func (s *session) wait(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b, open := <-s.blocks:
			if !open {
				s.blocks = nil // the close follows
				continue
			}
			s.gate.set(b.Active, b.Reason)
			s.noted()
		case err, told := <-s.closes:
			if !told {
				return errors.New("connection closed")
			}
			return err
		}
	}
}

// close ends the session: consumers send their last settlements, then the connection is closed.
func (s *session) close(cause error) {
	s.joins.Lock()
	s.cause = cause
	close(s.over)
	s.joins.Unlock()
	flushed := make(chan struct{})
	go func() {
		s.consumers.Wait()
		close(flushed)
	}()
	limit := time.NewTimer(flushMax)
	defer limit.Stop()
	select {
	case <-flushed:
	case <-limit.C:
	}
	_ = s.connection.CloseDeadline(time.Now().Add(closeMax)) // the connection is gone, with or without an error
	<-flushed
	s.lanes.Wait()
}

// join notes that a consumer runs until it says that it is done; false: the session is over.
func (s *session) join() bool {
	s.joins.Lock()
	defer s.joins.Unlock()
	select {
	case <-s.over:
		return false
	default:
		s.consumers.Add(1)
		return true
	}
}

// property returns one of the server's properties.
func (s *session) property(name string) string {
	text, _ := s.connection.Properties[name].(string)
	return text
}

// gate is shut while the server accepts no messages.
type gate struct {
	mu     sync.Mutex
	isShut bool
	reason string
	shut   chan struct{} // closed while the gate is shut
}

func (g *gate) set(shut bool, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reason = reason
	if shut == g.isShut {
		return
	}
	g.isShut = shut
	if shut {
		close(g.shut)
	} else {
		g.shut = make(chan struct{})
	}
}

// state returns a channel that is closed once the gate is shut, and whether and why it is.
func (g *gate) state() (shut <-chan struct{}, isShut bool, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut, g.isShut, g.reason
}
