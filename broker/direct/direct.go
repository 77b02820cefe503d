// Package direct carries messages between nodes that share no broker server. Each node keeps the queues of its own
// workers in its own adapter, usually package memory. A message for a queue of another node is posted to that node over
// the nodes' network.
//
// It wraps any adapter. It first publishes a message there. It posts the message only if that adapter has no such queue
// and the queue's name belongs to another node. So nodes with a broker server and nodes without one can use one store
// while a cluster changes from one to the other. Where work is handed over directly beside a server, the messages of
// such pools are posted at once: a node that gets one puts it on the queue that it has, in its memory or on the server.
//
// Messages for one node are posted in order, one request at a time. Messages that arrive meanwhile share the next
// request, so the number of requests does not grow with the load. A node that does not answer costs PostTime, and only
// its own messages are not confirmed.
package direct

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
)

// Bounds on what is posted.
const (
	// PostTime is the timeout of one post.
	PostTime = time.Second
	// waitingMax bounds the messages that wait for one node. One more is Nacked.
	waitingMax = 10_000
)

// Limits bound one post.
type Limits struct {
	Messages int // in number
	Bytes    int // of all bodies
}

// Post sends messages to the node of an incarnation, within the limits, and returns a confirm for each. After an error
// the messages without a confirm have an unknown outcome.
type Post func(ctx context.Context, to messages.Incarnation, list []broker.Message) ([]broker.Confirm, error)

// Config is what a Broker needs. All fields but Posts must be set.
type Config struct {
	Local    broker.Broker // the queues of this node
	Own      messages.Incarnation
	Settings broker.Settings // tells which node a queue's name belongs to
	Post     Post
	Limits   Limits
	// Posts, where set, says of which queues of other nodes Local has none: their messages are posted at once.
	Posts func(broker.QueueOwner) bool
}

// Broker is Local with a Publish that also reaches the queues of other nodes. All methods are safe for concurrent use.
type Broker struct {
	broker.Broker
	cfg Config

	mu      sync.Mutex
	lanes   map[messages.Incarnation]*lane // of the nodes with waiting or posted messages
	senders sync.WaitGroup                 // one for each lane
	closed  bool
}

var _ broker.Broker = (*Broker)(nil)

// New wraps an adapter. Close closes the adapter too.
func New(cfg Config) *Broker {
	return &Broker{Broker: cfg.Local, cfg: cfg, lanes: map[messages.Incarnation]*lane{}}
}

// Publish implements broker.Broker. A message for a queue of another node is Unknown if it is not delivered within
// PostTime, or before ctx ends.
func (b *Broker) Publish(ctx context.Context, list []broker.Message) ([]broker.Confirm, error) {
	confirms, err := b.publishHere(ctx, list)
	if err != nil {
		return confirms, err
	}
	var posts []*post
	byNode := map[messages.Incarnation]*post{}
	for i, confirm := range confirms {
		owner, ok := b.elsewhere(&list[i])
		if confirm != broker.Returned || !ok {
			continue
		}
		to := owner.Incarnation
		p := byNode[to]
		if p == nil {
			p = &post{ctx: ctx, to: to, done: make(chan struct{})}
			byNode[to], posts = p, append(posts, p)
		}
		p.list, p.places = append(p.list, list[i]), append(p.places, i)
	}
	for _, p := range posts {
		b.enqueue(p)
	}
	var errs []error
	for _, p := range posts {
		got, err := p.wait()
		for i, confirm := range got {
			confirms[p.places[i]] = confirm
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("publish to the queues of node %s: %w", p.to, err))
		}
	}
	return confirms, errors.Join(errs...)
}

// publishHere publishes to Local what it may have a queue for. The confirm of all else is Returned.
func (b *Broker) publishHere(ctx context.Context, list []broker.Message) ([]broker.Confirm, error) {
	if b.cfg.Posts == nil {
		return b.cfg.Local.Publish(ctx, list)
	}
	var here []broker.Message
	var places []int
	for i := range list {
		if owner, ok := b.elsewhere(&list[i]); !ok || !b.cfg.Posts(owner) {
			here, places = append(here, list[i]), append(places, i)
		}
	}
	confirms := all(len(list), broker.Returned)
	if len(here) == 0 {
		return confirms, nil
	}
	got, err := b.cfg.Local.Publish(ctx, here)
	for i, confirm := range got {
		confirms[places[i]] = confirm
	}
	return confirms, err
}

// Close implements broker.Broker. It waits for the posts in progress.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.senders.Wait()
	return b.cfg.Local.Close()
}

// Accept publishes messages that another node has posted. It reaches only queues of this node's workers; the confirm
// for any other is Returned.
func (b *Broker) Accept(ctx context.Context, list []broker.Message) ([]broker.Confirm, error) {
	confirms := make([]broker.Confirm, len(list))
	var own []broker.Message
	var places []int
	for i := range list {
		confirms[i] = broker.Returned
		owner, ok := b.cfg.Settings.ParseQueueName(list[i].RoutingKey)
		if list[i].Exchange == "" && ok && owner.Incarnation == b.cfg.Own {
			own, places = append(own, list[i]), append(places, i)
		}
	}
	if len(own) == 0 {
		return confirms, nil
	}
	got, err := b.cfg.Local.Publish(ctx, own)
	for i, confirm := range got {
		confirms[places[i]] = confirm
	}
	return confirms, err
}

// elsewhere returns the owner of a message's queue, if that is another node.
func (b *Broker) elsewhere(m *broker.Message) (owner broker.QueueOwner, ok bool) {
	if m.Exchange != "" {
		return owner, false
	}
	owner, ok = b.cfg.Settings.ParseQueueName(m.RoutingKey)
	return owner, ok && owner.Incarnation != b.cfg.Own
}
