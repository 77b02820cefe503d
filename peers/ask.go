package peers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
)

// ErrUnsupported means that the peer does not know the kind of request, or its version: it runs another release.
var ErrUnsupported = errors.New("the peer does not know what it was asked")

// callsMax bounds the requests to one address that wait for an answer.
const callsMax = 64

type callID [16]byte

// call is a request that waits for its answer.
type call struct {
	to      messages.Incarnation
	address string
	answer  chan answer // capacity one
}

type answer struct {
	body wire.Body
	err  error
}

// end ends the call with an answer. Only the first one counts.
func (c *call) end(body wire.Body, err error) {
	select {
	case c.answer <- answer{body, err}:
	default:
	}
}

// Ask sends a message to an incarnation and waits for its answer, at most the configured time or until ctx ends. about
// is the execution that the message concerns; zero: none. Request and answer may be lost. So a caller repeats a request
// that must succeed, and a handler must accept the same request twice. ErrUnknown, ErrBusy: the request was not sent.
// ErrLost, and an end of ctx: the peer may have got it. ErrUnsupported: it changed nothing at the peer.
func (n *Network) Ask(ctx context.Context, to messages.Incarnation, about messages.Placement, body wire.Body) (wire.Body, error) {
	return n.askWithin(ctx, n.cfg.AskTime, to, about, body, "it does not answer")
}

// AskTries bounds the tries of a request that is lost with its connection. The first request after a peer's restart
// uses the old connection and is lost.
const AskTries = 3

// AskAgain is Ask that repeats a request that was lost with its connection.
func (n *Network) AskAgain(ctx context.Context, to messages.Incarnation, about messages.Placement, body wire.Body) (reply wire.Body, err error) {
	for range AskTries {
		if reply, err = n.Ask(ctx, to, about, body); !errors.Is(err, ErrLost) {
			break
		}
	}
	return reply, err
}

// AskLong is Ask for long requests. It waits for up to limit. A peer that does not answer in that time does not become
// suspect.
func (n *Network) AskLong(ctx context.Context, limit time.Duration, to messages.Incarnation, about messages.Placement,
	body wire.Body,
) (wire.Body, error) {
	return n.askWithin(ctx, limit, to, about, body, "")
}

func (n *Network) askWithin(ctx context.Context, limit time.Duration, to messages.Incarnation, about messages.Placement, body wire.Body,
	silent string,
) (wire.Body, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reply, err := n.ask(ctx, to, about, body, silent)
	if err != nil {
		return nil, fmt.Errorf("ask peer %s: %w", to, err)
	}
	if _, unsupported := reply.(wire.Unsupported); unsupported {
		return nil, fmt.Errorf("ask peer %s: %T: %w", to, body, ErrUnsupported)
	}
	return reply, nil
}

// ask sends a request and waits. silent is why the peer becomes suspect if it does not answer in time; empty: it does
// not become suspect.
func (n *Network) ask(ctx context.Context, to messages.Incarnation, about messages.Placement, body wire.Body,
	silent string,
) (wire.Body, error) {
	address, err := n.addressOf(to)
	if err != nil {
		return nil, err
	}
	if err := n.settle(ctx, address); err != nil {
		return nil, err
	}
	id := callID(uuid.Must(uuid.NewV7()))
	c, err := n.begin(id, to, address)
	if err != nil {
		return nil, err
	}
	defer n.forgetCall(id)
	if err := n.post(ctx, address, to, id, about, body); err != nil {
		return nil, err
	}
	select {
	case a := <-c.answer:
		if a.err != nil {
			n.stands(to, a.err.Error())
		}
		return a.body, a.err
	case <-ctx.Done():
		if silent != "" && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			n.stands(to, silent)
		}
		return nil, context.Cause(ctx)
	}
}

// begin registers a request.
func (n *Network) begin(id callID, to messages.Incarnation, address string) (*call, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	waiting := 0
	for _, c := range n.calls {
		if c.address == address {
			waiting++
		}
	}
	if waiting >= callsMax {
		return nil, fmt.Errorf("%w: %d questions", ErrBusy, waiting)
	}
	c := &call{to: to, address: address, answer: make(chan answer, 1)}
	n.calls[id] = c
	return c, nil
}

func (n *Network) forgetCall(id callID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.calls, id)
}

// failAll ends every request.
func (n *Network) failAll(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.calls {
		c.end(nil, err)
	}
}

// post sends one body to an incarnation at an address. If ctx ends first, it was not sent.
func (n *Network) post(ctx context.Context, address string, to messages.Incarnation, id callID, about messages.Placement,
	body wire.Body,
) error {
	seq, err := n.book(ctx, address)
	if err != nil {
		if errors.Is(err, ErrBusy) {
			n.counts.drop(Busy)
		}
		return err
	}
	encoded, err := wire.ToProto(wire.Envelope{
		ID: id, Seq: seq, Placement: about, SentAt: time.Now(), From: n.cfg.Own, To: to, Body: body,
	})
	if err == nil {
		err = n.send(address, encoded)
	}
	if err != nil {
		n.unbook(address, 1)
	}
	return err
}

// answered passes an envelope to the request that it answers, if there is one.
func (n *Network) answered(e *wire.Envelope) bool {
	n.mu.Lock()
	c := n.calls[callID(e.ID)]
	n.mu.Unlock()
	if c == nil || c.to != e.From {
		return false
	}
	c.end(e.Body, nil)
	n.stands(e.From, "")
	return true
}
