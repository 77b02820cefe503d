package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/interest"
	"github.com/troupe-run/troupe/supervisor"
)

// elsewhere asks other nodes for the outcomes that callers of this one wait for, and tells others those that they have asked for, once they are
// stored here. Whatever is lost on the way is found in the store by whoever waits.
type elsewhere struct {
	own      messages.Incarnation
	outcomes *actors.Outcomes
	count    func(result string, n int)
	// reaches and post are the node's network to its peers.
	reaches func(messages.Incarnation) bool
	post    func(ctx context.Context, to messages.Incarnation, body wire.Body) (wire.Body, error)

	wanted atomic.Int64 // executions in the book. Without any, an outcome costs this node a look at the number
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // what is being sent

	mu     sync.Mutex
	closed bool
	book   *interest.Book
	lines  map[messages.Incarnation]*line // to the others that live and can be asked
}

// line is what waits for one other node.
type line struct {
	to    messages.Incarnation
	asks  *interest.Queue[wire.Awaited]
	tells *interest.Queue[wire.Outcome]
	quiet time.Time // nothing is sent before it
	other bool      // the node is of a release with other outcomes, and is not asked
}

// What waits for one node at most, and goes in one message: four messages that ask, each item counted as one byte, and twenty that tell, which
// is the memory that a slow node costs. Items that find no room are dropped.
var (
	asksBounds  = interest.Bounds{Items: 4096, Bytes: 4096, MessageItems: wire.AwaitMax, MessageBytes: wire.AwaitMax}
	tellsBounds = interest.Bounds{Items: 1024, Bytes: 4 << 20, MessageItems: wire.OutcomesMax, MessageBytes: wire.OutcomesBytesMax}
)

const (
	elsewhereTime  = 2 * time.Second  // for the answer to one message. A node that is as slow is not worth waiting for
	elsewhereQuiet = time.Second      // without messages after one that was not answered
	asksGap        = time.Millisecond // between two messages that ask one node: many callers share one
)

func newElsewhere(b *base, outcomes *actors.Outcomes, count func(result string, n int)) *elsewhere {
	x := &elsewhere{
		own: b.incarnation, outcomes: outcomes, count: count, book: interest.NewBook(time.Now()), lines: map[messages.Incarnation]*line{},
		reaches: func(inc messages.Incarnation) bool { return b.peers != nil && b.peers.Reaches(inc) },
		post: func(ctx context.Context, to messages.Incarnation, body wire.Body) (wire.Body, error) {
			return b.peers.AskLong(ctx, elsewhereTime, to, messages.Placement{}, body)
		},
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	outcomes.Ask = x.ask
	return x
}

func (x *elsewhere) handlers() []peers.Handler {
	return []peers.Handler{peers.Handle(x.asked), peers.Handle(x.told)}
}

// hear takes membership's news of the others, after the network has.
func (x *elsewhere) hear(message any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch news := message.(type) {
	case *supervisor.NodeUp:
		inc := news.Node.Incarnation
		if x.lines[inc] == nil && x.reaches(inc) {
			x.lines[inc] = &line{to: inc, asks: interest.NewQueue[wire.Awaited](asksBounds), tells: interest.NewQueue[wire.Outcome](tellsBounds)}
		}
	case *supervisor.NodeDown:
		delete(x.lines, news.Node.Incarnation)
		x.book.Forget(news.Node.Incarnation)
		x.noted()
	}
}

// noted keeps the number of wanted executions. The caller holds the lock.
func (x *elsewhere) noted() { x.wanted.Store(int64(x.book.Len())) }

// ask asks the nodes on which an execution may end for its outcome. A caller waits for it here, and looks at the store after the pause.
func (x *elsewhere) ask(e *messages.Execution, pause time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.lines) == 0 || x.closed {
		return
	}
	now, live := time.Now(), make([]messages.Incarnation, 0, len(x.lines))
	for inc, l := range x.lines {
		if !l.other && now.After(l.quiet) && x.reaches(inc) {
			live = append(live, inc)
		}
	}
	for _, inc := range interest.Ask(x.own, e.Status, e.Worker.Incarnation, live) {
		l := x.lines[inc]
		begin, ok := l.asks.Add(wire.Awaited{ID: e.ID, For: interest.Lasts(pause)}, 1)
		switch {
		case !ok:
			x.count("crowded", 1)
		case begin:
			x.work.Go(func() {
				carry(x, l, l.asks, "asked", asksGap, func(next []wire.Awaited) wire.Body { return wire.Await{Form: wire.OutcomeForm, Executions: next} })
			})
		}
	}
}

// ended tells the nodes that have asked for it an outcome that this node has stored.
func (x *elsewhere) ended(e *messages.Execution) {
	to := x.who(e.ID)
	if len(to) == 0 {
		return
	}
	o, err := wire.EncodeOutcome(e)
	if err != nil {
		x.count("too_large", len(to))
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, inc := range to {
		x.tell(x.lines[inc], o)
	}
}

// tell sends an outcome on a line. The caller holds the lock.
func (x *elsewhere) tell(l *line, o wire.Outcome) {
	if l == nil || x.closed || time.Now().Before(l.quiet) {
		x.count("failed", 1)
		return
	}
	begin, ok := l.tells.Add(o, o.Size())
	switch {
	case !ok:
		x.count("crowded", 1)
	case begin:
		x.work.Go(func() {
			carry(x, l, l.tells, "sent", 0, func(next []wire.Outcome) wire.Body { return wire.Outcomes{Outcomes: next} })
		})
	}
}

// over hears of an outcome by the store's hint. Another node may have stored it, or this one, whose recorder tells it soon.
func (x *elsewhere) over(id messages.ExecutionID) {
	if x.wanted.Load() == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.noted()
	x.book.Over(time.Now(), id)
}

// who strikes out an execution that this node has ended, and returns who wants its outcome.
func (x *elsewhere) who(id messages.ExecutionID) []messages.Incarnation {
	if x.wanted.Load() == 0 {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.noted()
	return x.book.Told(time.Now(), id)
}

// carry sends what a queue of a line gathers, until nothing waits there.
func carry[T any](x *elsewhere, l *line, q *interest.Queue[T], result string, gap time.Duration, body func([]T) wire.Body) {
	for {
		x.mu.Lock()
		next := q.Next()
		x.mu.Unlock()
		if len(next) == 0 {
			return
		}
		x.sent(l, result, len(next), x.send(l.to, body(next)))
		select {
		case <-time.After(gap):
		case <-x.ctx.Done():
		}
	}
}

// errOtherForm means that a node is of a release whose outcomes have other fields.
var errOtherForm = errors.New("its outcomes have other fields")

func (x *elsewhere) send(to messages.Incarnation, body wire.Body) error {
	reply, err := x.post(x.ctx, to, body)
	if ack, ok := reply.(wire.Ack); err == nil && (!ok || ack.Refused != "") {
		return errOtherForm
	}
	return err
}

// sent takes what became of a message of n items.
func (x *elsewhere) sent(l *line, result string, n int, err error) {
	if err == nil {
		x.count(result, n)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	l.other = l.other || errors.Is(err, errOtherForm) || errors.Is(err, peers.ErrUnsupported)
	l.quiet = time.Now().Add(elsewhereQuiet)
	x.count("failed", n+l.asks.Drop()+l.tells.Drop())
}

// errUnproven refuses a sender that only its row in the store makes a node of an older release: no such node asks or tells, and whoever
// speaks for one must not answer callers. Who knows the secret can write outcomes to the store itself.
var errUnproven = errors.New("outcomes go only between nodes that know the cluster's secret")

// asked notes which outcomes another node wants.
func (x *elsewhere) asked(_ context.Context, r peers.Request, a wire.Await) (wire.Body, error) {
	switch {
	case !r.Proven:
		return nil, errUnproven
	case a.Form != wire.OutcomeForm:
		return nil, errOtherForm
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lines[r.From] == nil {
		return wire.Ack{}, nil // it has ended, or is not known yet
	}
	now, crowded := time.Now(), 0
	for _, w := range a.Executions {
		if !x.book.Note(now, r.From, w.ID, w.For) {
			crowded++
		}
	}
	x.noted()
	x.count("crowded", crowded)
	return wire.Ack{}, nil
}

// told passes outcomes that another node has stored to those who wait for them here.
func (x *elsewhere) told(_ context.Context, r peers.Request, o wire.Outcomes) (wire.Body, error) {
	if !r.Proven {
		return nil, errUnproven
	}
	for i := range o.Outcomes {
		e, err := o.Outcomes[i].Decode()
		if err != nil {
			return nil, err
		}
		x.count("taken", 1)
		x.outcomes.Publish(&e)
	}
	return wire.Ack{}, nil
}

// close ends what is being sent.
func (x *elsewhere) close() {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.cancel()
	x.work.Wait()
}
