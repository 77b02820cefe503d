package memory

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/broker"
)

// server holds what all connections share: the exchanges, the queues and the clock.
type server struct {
	start    time.Time
	queueMax int
	dropped  atomic.Uint64

	mu          sync.RWMutex // routing holds it for reading; removing a queue holds it for writing
	closed      bool
	connections int
	exchanges   map[string]*exchange
	queues      map[string]*queue
}

func newServer(queueMax int) *server {
	return &server{
		start:     time.Now(),
		queueMax:  queueMax,
		exchanges: map[string]*exchange{},
		queues:    map[string]*queue{},
	}
}

// now returns the monotonic time since the server began. It is never 0, so 0 can mean none.
func (s *server) now() time.Duration { return time.Since(s.start) + 1 }

func (s *server) declare(t broker.Topology) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return broker.ErrClosed
	}
	for _, e := range t.Exchanges {
		if err := s.declareExchange(e); err != nil {
			return err
		}
	}
	for _, q := range t.Queues {
		if err := s.declareQueue(q); err != nil {
			return err
		}
	}
	for _, b := range t.Bindings {
		if err := s.bind(b); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) declareExchange(e broker.Exchange) error {
	if err := checkName("exchange", e.Name); err != nil {
		return err
	}
	switch e.Kind {
	case broker.Fanout, broker.Topic, broker.Direct:
	default:
		return fmt.Errorf("declare exchange %s: unknown kind %q: want fanout, topic or direct", e.Name, e.Kind)
	}
	if old, ok := s.exchanges[e.Name]; ok {
		if old.kind != e.Kind {
			return fmt.Errorf("declare exchange %s as %s: it is %s: %w", e.Name, e.Kind, old.kind, broker.ErrPrecondition)
		}
		return nil
	}
	s.exchanges[e.Name] = &exchange{name: e.Name, kind: e.Kind}
	return nil
}

func (s *server) declareQueue(spec broker.Queue) error {
	if err := checkQueue(spec); err != nil {
		return err
	}
	old, ok := s.queues[spec.Name]
	if !ok {
		s.queues[spec.Name] = newQueue(s, spec)
		return nil
	}
	if old.spec != spec {
		return fmt.Errorf("declare queue %s: %w", spec.Name, broker.ErrPrecondition)
	}
	old.touch()
	return nil
}

func (s *server) bind(b broker.Binding) error {
	e, ok := s.exchanges[b.Exchange]
	if !ok {
		return fmt.Errorf("bind %s to %s: no such exchange: declare it first", b.Queue, b.Exchange)
	}
	q, ok := s.queues[b.Queue]
	if !ok {
		return fmt.Errorf("bind %s to %s: %w", b.Queue, b.Exchange, broker.ErrNoQueue)
	}
	if len(b.Key) > nameMax {
		return fmt.Errorf("bind %s to %s: the key has %d bytes, at most %d are allowed", b.Queue, b.Exchange, len(b.Key), nameMax)
	}
	e.bind(q, b.Key)
	return nil
}

// publish fills confirms, which is as long as messages.
func (s *server) publish(messages []broker.Message, confirms []broker.Confirm) error {
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return broker.ErrClosed
	}
	w := writer{server: s, now: s.now(), left: len(messages)}
	var room [8]*queue
	for i := range messages {
		m := &messages[i]
		targets := s.route(m.Exchange, m.RoutingKey, room[:0])
		confirms[i] = w.putAll(targets, m)
	}
	dead := w.finish()
	s.mu.RUnlock()
	s.publishDead(dead)
	return nil
}

// route appends the queues that get a message, each once. The caller holds mu.
func (s *server) route(exchange, key string, into []*queue) []*queue {
	if exchange == "" {
		if q, ok := s.queues[key]; ok {
			into = append(into, q)
		}
		return into
	}
	if e, ok := s.exchanges[exchange]; ok {
		into = e.route(key, into)
	}
	return into
}

func (s *server) consume(b *Broker, name string, prefetch int) (broker.Consumer, error) {
	s.mu.RLock()
	q, ok := s.queues[name]
	if !ok {
		s.mu.RUnlock()
		return nil, fmt.Errorf("consume %s: %w", name, broker.ErrNoQueue)
	}
	c := newConsumer(b, q, prefetch)
	q.mu.Lock()
	s.mu.RUnlock()
	if err := b.admit(c); err != nil {
		q.mu.Unlock()
		return nil, err
	}
	q.attach(c)
	q.unlockAndPublish(q.dispatch(nil))
	return c, nil
}

func (s *server) inspect(name string) (broker.QueueInfo, error) {
	s.mu.RLock()
	q, ok := s.queues[name]
	s.mu.RUnlock()
	if !ok {
		return broker.QueueInfo{}, fmt.Errorf("inspect %s: %w", name, broker.ErrNoQueue)
	}
	q.mu.Lock()
	dead := q.expireHeads(s.now(), nil)
	info := broker.QueueInfo{Ready: q.ready.length, Consumers: len(q.consumers)}
	q.unlockAndPublish(dead)
	return info, nil
}

func (s *server) inspectExchange(name string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if _, ok := s.exchanges[name]; !ok {
		return fmt.Errorf("inspect exchange %s: %w", name, broker.ErrNoExchange)
	}
	return nil
}

// remove removes a queue, its bindings and its messages. It calls unless, where given, under the queue's lock, and
// keeps the queue if unless returns true.
func (s *server) remove(name string, unless func(*queue) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, ok := s.queues[name]
	if !ok {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if unless != nil && unless(q) {
		return
	}
	delete(s.queues, name)
	for _, e := range s.exchanges {
		e.unbind(q)
	}
	q.end(fmt.Errorf("queue %s was deleted: %w", name, broker.ErrNoQueue))
}

// disconnect removes a connection. The last one ends the server and stops every timer.
func (s *server) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connections--
	if s.connections > 0 {
		return
	}
	s.closed = true
	for _, q := range s.queues {
		q.mu.Lock()
		q.end(broker.ErrClosed)
		q.mu.Unlock()
	}
	clear(s.queues)
	clear(s.exchanges)
}
