package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const (
	// refusedMax is how often a page is published that the broker refuses some messages of; those are put off then.
	refusedMax   = 3
	refusedPause = 100 * time.Millisecond // before it is published again
	renewEvery   = 100 * time.Millisecond // looks at the lease while the broker is waited for
)

// noticePage is a page with its messages.
type noticePage struct {
	store.NoticesPage
	messages []broker.Message
	ids      []messages.ExecutionID
	routes   []store.NoticeRoute // zero: routeOf
	from     int                 // the first that is not told
	tries    int                 // publishings that were refused in part
	later    []messages.ExecutionID
	total    int // messages that it had
}

// size is how many notices the page has, also unread ones.
func (p *noticePage) size() int {
	n := p.total
	for _, unread := range p.Unread {
		n += unread
	}
	return n
}

// stuck reports whether the broker has refused all of the page, which is then no time to go on at once.
func (p *noticePage) stuck() bool { return p.total > 0 && len(p.later) == p.total }

func (p *noticePage) refused() error {
	return fmt.Errorf("the broker refused %d notices, that of execution %s first, and they were put off: a queue that is bound to the exchange is full or away: %w",
		len(p.later), p.later[0], broker.ErrUnavailable)
}

// compose makes the page's messages. What cannot be told is told of in the log, and passed over.
func (t *teller) compose(found store.NoticesPage) *noticePage {
	p := &noticePage{NoticesPage: found}
	for i := range found.Notices {
		m, err := t.message(&found.Notices[i])
		if err != nil {
			t.logs.untellable.Error(t.cfg.Logger, "notice cannot be told", append(found.Notices[i].Execution.LogFields(), "error", err)...)
			p.Gone++
			continue
		}
		e := &found.Notices[i].Execution
		p.messages, p.ids, p.routes = append(p.messages, m), append(p.ids, e.ID), append(p.routes, routeOf(e))
	}
	p.total = len(p.messages)
	p.Notices = nil // the messages have what is needed of them
	if p.Gone > 0 {
		t.cfg.Count("gone", p.Gone)
	}
	return p
}

// message is one notice. Its id is the execution's, so that who gets it twice can tell.
func (t *teller) message(n *store.Notice) (broker.Message, error) {
	e := &n.Execution
	notice := messages.NoticeOf(e)
	notice.Truncated = notice.Truncated || n.Truncated
	body, err := notice.Encode()
	if err != nil {
		return broker.Message{}, err
	}
	headers := map[string]string{"type": messages.NoticeType}
	if e.Trace != "" {
		headers["traceparent"] = notice.Trace
	}
	if notice.State != "" {
		headers["tracestate"] = notice.State
	}
	return broker.Message{
		Exchange: t.cfg.Settings.ExecutionsExchange(), RoutingKey: broker.NoticeKey(e.Status, e.Action),
		ID: e.ID.String(), Headers: headers, Body: body,
	}, nil
}

// publish publishes the page until each of its notices is told or put off. On an error the page stays as far as it came.
func (t *teller) publish(ctx context.Context, p *noticePage) error {
	for p.from < len(p.messages) {
		if s := t.cfg.Broker.Status(); !s.Up || s.Blocked {
			return takesNothing(s)
		}
		confirms, kept, err := t.send(ctx, p.messages[p.from:])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(kept, store.ErrNoticesLost) {
			return kept
		}
		t.advance(p, confirms)
		switch {
		case kept != nil: // it canceled the publishing, so err says nothing of the broker or the messages
			return kept
		case p.from == len(p.messages):
		case refusals(confirms) > 0:
			if p.tries++; p.tries >= refusedMax {
				t.putOff(p, confirms)
				continue
			}
			if err := pause(ctx, refusedPause); err != nil {
				return err
			}
		case errors.Is(err, broker.ErrMessage):
			return t.alone(ctx, p)
		default:
			return fmt.Errorf("%d notices were not confirmed: %w", len(p.messages)-p.from, errors.Join(err, broker.ErrUnavailable))
		}
	}
	return nil
}

// send publishes messages, and keeps the lease meanwhile. kept is the store's error, which cancels the publishing; err is the
// broker's.
func (t *teller) send(ctx context.Context, all []broker.Message) (confirms []broker.Confirm, kept, err error) {
	limited, cancel := context.WithTimeout(ctx, noticesCall)
	defer cancel()
	type answer struct {
		confirms []broker.Confirm
		err      error
	}
	answers := make(chan answer, 1)
	go func() {
		confirms, err := t.cfg.Broker.Publish(limited, all)
		answers <- answer{confirms, err}
	}()
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case a := <-answers:
			return a.confirms, kept, a.err
		case <-tick.C:
			if kept == nil {
				if kept = t.record.keep(ctx); kept != nil {
					cancel() // what is under way may still arrive: it is told twice then
				}
			}
		}
	}
}

// advance moves behind those of the confirms that are told from the first on: a queue has them, or nobody listens.
func (t *teller) advance(p *noticePage, confirms []broker.Confirm) {
	told, unheard := 0, 0
	for i, c := range confirms {
		if c == broker.Returned {
			unheard++
		} else if c == broker.Confirmed {
			told++
		} else {
			break
		}
		t.unheard.learn(p.routes[p.from+i], c)
	}
	p.from += told + unheard
	t.count("told", told)
	t.count("unheard", unheard)
	t.count("repeated", len(p.messages)-p.from)
}

func (t *teller) count(result string, n int) {
	if n > 0 {
		t.cfg.Count(result, n)
	}
}

func takesNothing(s broker.Status) error {
	return fmt.Errorf("the broker takes nothing: %s: %w", s.Reason, broker.ErrUnavailable)
}

func refusals(confirms []broker.Confirm) (n int) {
	for _, c := range confirms {
		if c == broker.Nacked {
			n++
		}
	}
	return n
}

// putOff gives what was refused now a new place at the end of the outbox, so that a listener that takes nothing holds up nobody
// else, and leaves what was not confirmed otherwise to be published again. The confirms are of the last messages of the page.
func (t *teller) putOff(p *noticePage, confirms []broker.Confirm) {
	first := len(p.messages) - len(confirms)
	end := p.from
	for i := p.from; i < len(p.messages); i++ {
		switch confirms[i-first] {
		case broker.Nacked:
			p.later = append(p.later, p.ids[i])
			t.count("put_off", 1)
		case broker.Unknown:
			p.messages[end], p.ids[end], p.routes[end] = p.messages[i], p.ids[i], p.routes[i]
			end++
		default: // told, though one before it was not
		}
	}
	p.messages, p.ids, p.routes, p.tries = p.messages[:end], p.ids[:end], p.routes[:end], 0
}

// alone publishes one message after the other where one of them is a message that the broker can never take. That one is passed
// over, and one that a queue refuses is put off.
func (t *teller) alone(ctx context.Context, p *noticePage) error {
	for p.from < len(p.messages) {
		confirms, kept, err := t.send(ctx, p.messages[p.from:p.from+1])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(kept, store.ErrNoticesLost) {
			return kept
		}
		confirm := broker.Unknown
		if len(confirms) == 1 {
			confirm = confirms[0]
		}
		switch {
		case confirm == broker.Confirmed:
			t.count("told", 1)
		case confirm == broker.Returned:
			t.count("unheard", 1)
		case kept != nil:
			return kept
		case confirm == broker.Nacked:
			p.later = append(p.later, p.ids[p.from])
			t.count("put_off", 1)
		case errors.Is(err, broker.ErrMessage):
			t.logs.untellable.Error(t.cfg.Logger, "notice cannot be told", "execution", p.ids[p.from], "error", err)
			t.count("gone", 1)
		default:
			return fmt.Errorf("notice of execution %s was not confirmed: %w", p.ids[p.from], errors.Join(err, broker.ErrUnavailable))
		}
		p.from++
		if kept != nil {
			return kept
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
