package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// TellNotices says that outcomes with notices have been committed. Only a hint: the bridge also looks by itself.
type TellNotices struct{}

// NoticesConfig is what the notices bridge needs.
type NoticesConfig struct {
	System   *System
	Store    store.Notices
	Broker   broker.Broker
	Settings broker.Settings
	// Every is how often the outbox is looked at without any word of an outcome [3 s].
	Every  time.Duration
	Hold   time.Duration // how long taken notices are kept from other nodes [30 s]
	Logger hclog.Logger
	// Count, where set, is told how many notices were told, unheard (nobody has bound a queue) or repeated later.
	Count func(result string, n int)
}

// Bounds of the notices bridge. One batch must be published within its hold. One notice has at most about 100 KiB.
const (
	noticesEvery   = 3 * time.Second
	noticesHold    = 30 * time.Second
	noticesTimeout = 15 * time.Second // of one batch
	noticesBatch   = 100
	noticesBatches = 50 // of one round
)

// Notices is the bridge from outcomes to the executions exchange, at least once: what is in the store's outbox is
// published, and forgotten only when the broker has confirmed it or has said that nobody listens.
type Notices struct {
	cfg    NoticesConfig
	cell   *Cell
	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	busy   bool
	due    bool
}

type (
	noticesDue  struct{}
	noticesDone struct {
		by   *Notices
		more bool
		err  error
	}
)

// NewNotices returns the child to spawn.
func NewNotices(cfg NoticesConfig) Child {
	if cfg.Every == 0 {
		cfg.Every = noticesEvery
	}
	if cfg.Hold == 0 {
		cfg.Hold = noticesHold
	}
	cell := &Cell{}
	return Child{Name: "notices", Kind: "bridge", Cell: cell, New: func() actor.Actor { return &Notices{cfg: cfg, cell: cell} }}
}

// Receive implements actor.Actor.
func (n *Notices) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		n.ctx, n.cancel = context.WithCancel(context.Background())
		n.again(ctx)
		n.round(ctx)
	case *actor.Stopping:
		n.cancel()
		stopTimer(n.timer)
	case *actor.Stopped:
	case *TellNotices:
		n.round(ctx)
	case *noticesDue:
		n.again(ctx)
		n.round(ctx)
	case *noticesDone:
		if m.by == n {
			n.done(ctx, m)
		}
	default:
		n.cfg.System.Registry.Unknown(ctx)
	}
}

func (n *Notices) again(ctx actor.Context) {
	self, system := ctx.Self(), n.cfg.System
	spread := 0.9 + 0.2*rand.Float64()
	n.timer = time.AfterFunc(time.Duration(float64(n.cfg.Every)*spread), func() { system.Send(self, &noticesDue{}) })
}

// round empties the outbox, beside the actor. What is committed meanwhile is the next round's.
func (n *Notices) round(ctx actor.Context) {
	if n.busy {
		n.due = true
		return
	}
	if n.ctx.Err() != nil {
		return
	}
	n.busy, n.due = true, false
	self, system, parent := ctx.Self(), n.cfg.System, n.ctx
	go func() {
		defer system.Carry(self)
		more, err := n.tell(parent)
		system.Send(self, &noticesDone{n, more, err})
	}()
}

func (n *Notices) done(ctx actor.Context, m *noticesDone) {
	n.busy = false
	n.cell.Update(func(s *Status) {
		if s.State, s.Why = "listening", ""; m.err != nil {
			s.State, s.Why, s.LastFailure = "waiting", m.err.Error(), m.err.Error()
		}
	})
	if m.err != nil && n.ctx.Err() == nil {
		n.cfg.Logger.Warn("notices not told, telling them later", "error", m.err)
		return // the timer's round is the next
	}
	if m.more || n.due {
		n.round(ctx)
	}
}

// tell publishes batch after batch while all goes well, up to a bound. More: there may be others.
func (n *Notices) tell(ctx context.Context) (more bool, err error) {
	for range noticesBatches {
		if s := n.cfg.Broker.Status(); !s.Up || s.Blocked {
			return false, fmt.Errorf("the broker takes nothing: %s: %w", s.Reason, broker.ErrUnavailable)
		}
		full, err := n.batch(ctx)
		if err != nil || !full {
			return false, err
		}
	}
	return true, nil
}

// batch takes, publishes and forgets some notices. Full: there may be more.
func (n *Notices) batch(ctx context.Context) (full bool, err error) {
	limited, cancel := context.WithTimeout(ctx, noticesTimeout)
	defer cancel()
	ended, err := n.cfg.Store.TakeNotices(limited, n.cfg.Hold, noticesBatch)
	if err != nil || len(ended) == 0 {
		return false, err
	}
	out := make([]broker.Message, len(ended))
	for i := range ended {
		if out[i], err = n.message(&ended[i]); err != nil {
			return false, err
		}
	}
	confirms, err := n.cfg.Broker.Publish(limited, out)
	told := n.judge(ended, confirms)
	if sent := n.cfg.Store.NoticesSent(limited, told); sent != nil {
		err = errors.Join(err, sent)
	}
	if err == nil && len(told) < len(ended) {
		err = fmt.Errorf("%d of %d notices were not taken: %w", len(ended)-len(told), len(ended), broker.ErrUnavailable)
	}
	return len(ended) == noticesBatch, err
}

// judge returns those that need not be told again: a queue has them, or nobody listens.
func (n *Notices) judge(ended []messages.Execution, confirms []broker.Confirm) []messages.ExecutionID {
	told := make([]messages.ExecutionID, 0, len(ended))
	counts := map[string]int{}
	for i := range ended {
		result := "repeated"
		if i < len(confirms) {
			switch confirms[i] {
			case broker.Confirmed:
				result = "told"
			case broker.Returned:
				result = "unheard"
			}
		}
		if counts[result]++; result != "repeated" {
			told = append(told, ended[i].ID)
		}
	}
	if n.cfg.Count != nil {
		for result, count := range counts {
			n.cfg.Count(result, count)
		}
	}
	return told
}

// message is one notice. Its id is the execution's, so that who gets it twice can tell.
func (n *Notices) message(e *messages.Execution) (broker.Message, error) {
	body, err := messages.NoticeOf(e).Encode()
	if err != nil {
		return broker.Message{}, fmt.Errorf("notice of execution %s: %w", e.ID, err)
	}
	headers := map[string]string{"type": messages.NoticeType}
	if e.Trace != "" {
		headers["traceparent"] = e.Trace
	}
	return broker.Message{
		Exchange: n.cfg.Settings.ExecutionsExchange(), RoutingKey: broker.NoticeKey(e.Status, e.Action),
		ID: e.ID.String(), Headers: headers, Body: body,
	}, nil
}
