package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a question to another node.
const (
	steerTime  = 4 * time.Second       // for what the other node asks its actors or the store
	crowdWait  = 50 * time.Millisecond // before a question that the other node had no room for is repeated
	askingMax  = 16                    // questions to one node under way: the network takes more, for those that decide about leases
	refusedMax = 256                   // bytes of a refusal, as the contract bounds them
)

// rooms holds the questions to each other node that are under way.
type rooms struct {
	mu sync.Mutex
	by map[messages.Incarnation]chan struct{}
}

func (r *rooms) of(inc messages.Incarnation) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[messages.Incarnation]chan struct{}{}
	}
	if r.by[inc] == nil {
		r.by[inc] = make(chan struct{}, askingMax)
	}
	return r.by[inc]
}

// keep drops the rooms of incarnations that have ended.
func (r *rooms) keep(lives func(messages.Incarnation) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.by, func(inc messages.Incarnation, _ chan struct{}) bool { return !lives(inc) })
}

// Calls asks other nodes on behalf of callers of this one.
type Calls struct {
	cfg     *Config
	nodes   *Directory
	asking  rooms         // holds one for each question to another node under way
	hinting chan struct{} // holds one for each hint to another node under way
}

// ask asks another incarnation, again where the connection was lost or it had no room: whoever is asked takes the same
// request twice. Every error is a *messages.Problem that names the node.
func (c *Calls) ask(ctx context.Context, to *store.Node, limit time.Duration, about messages.Placement,
	body wire.Body,
) (wire.Body, error) {
	if c.nodes.network == nil {
		return nil, c.unreachable(to, "this node listens for no peers (node.peers_listen)", false)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	room := c.asking.of(to.Incarnation)
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
	case <-ctx.Done():
		return nil, c.unreachable(to, fmt.Sprintf("%d questions to it are under way", askingMax), false)
	}
	for lost := 0; ; {
		reply, err := c.nodes.network.AskLong(ctx, limit, to.Incarnation, about, body)
		ack, refused := reply.(wire.Ack)
		switch {
		case errors.Is(err, peers.ErrLost) && lost+1 < peers.AskTries:
			lost++
		case err != nil:
			return nil, c.notAsked(ctx, to, err)
		case refused && ack.Code == peers.Crowded && pause(ctx, crowdWait):
		case refused && ack.Refused != "":
			return nil, refusal(to, ack)
		default:
			return reply, nil
		}
	}
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// notAsked says why a node gave no answer, and what to do.
func (c *Calls) notAsked(ctx context.Context, to *store.Node, err error) error {
	switch {
	case errors.Is(err, peers.ErrUnsupported):
		return messages.Problemf(messages.CodeNodeOlder,
			"node %s runs %s, which does not know what was asked; %s, or bring both nodes to the same release", to.Name, release(to), direct(to))
	case errors.Is(err, peers.ErrUnknown):
		return c.unreachable(to, "it tells no address for peers that can be dialled from here (node.peers_listen there)", false)
	case errors.Is(err, peers.ErrLost):
		return c.unreachable(to, "the connection was lost", true)
	case errors.Is(err, peers.ErrBusy):
		return c.unreachable(to, "too much waits for it", false)
	case errors.Is(err, context.Canceled):
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return c.unreachable(to, "it did not answer in time", true)
	}
	return c.unreachable(to, err.Error(), true)
}

func release(to *store.Node) string {
	if to.Version == "" {
		return "another release"
	}
	return "release " + to.Version
}

// unreachable is the problem of a node that was not heard. Sent: it may have got the question nevertheless.
func (c *Calls) unreachable(to *store.Node, why string, sent bool) error {
	text := fmt.Sprintf("node %s cannot be reached from node %s: %s", to.Name, c.cfg.Name, why)
	if c.nodes.network != nil {
		text += "; " + c.nodes.Standing(to.Incarnation).Why
	}
	if sent {
		text += "; it may have got the request"
	}
	return messages.Problemf(messages.CodeNodeUnreachable, "%s; %s", text, direct(to))
}

// direct says how a node is called without another one between.
func direct(to *store.Node) string {
	if to.Address == "" {
		return "it has no API of its own to call"
	}
	return "call it directly: --server http://" + to.Address
}

// passedOn are the codes of another node's refusals that callers get as they are.
var passedOn = []messages.Code{
	messages.CodeNotFound, messages.CodeUnavailable, messages.CodeStoreUnavailable, messages.CodeInvalidRequest, messages.CodeCrowded,
}

// refusal is the problem of what another node refused.
func refusal(to *store.Node, ack wire.Ack) error {
	if code := messages.Code(ack.Code); slices.Contains(passedOn, code) {
		return messages.Problemf(code, "node %s: %s", to.Name, ack.Refused)
	}
	return unusable("node %s refused it: %s", to.Name, ack.Refused)
}

// unusable is the problem of another node's answer with which nothing can be done.
func unusable(format string, args ...any) *messages.Problem {
	p := messages.Problemf(messages.CodeInternal, format, args...)
	p.Cause = messages.CausePeer
	return p
}

// refuse is how a node refuses what a peer asked for.
func refuse(err error) wire.Ack {
	text, code := err.Error(), messages.CodeInternal
	var p *messages.Problem
	switch {
	case errors.As(err, &p):
		text, code = p.Message, p.Code
	case errors.Is(err, store.ErrNotFound):
		code = messages.CodeNotFound
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrReadOnly), errors.Is(err, context.DeadlineExceeded):
		code = messages.CodeStoreUnavailable
	}
	ack := wire.Ack{Refused: text, Code: string(code)}
	if len(ack.Refused) > refusedMax {
		ack.Refused = ack.Refused[:refusedMax]
	}
	ack.Refused = strings.ToValidUTF8(ack.Refused, "")
	return ack
}

// pagesMax bounds the pages of one listing: a node's largest has some dozens.
const pagesMax = 200

// askPages asks another node for a listing, page by page.
func askPages[T any](ctx context.Context, c *Calls, to *store.Node, page func(after string) wire.Body) ([]T, error) {
	var all []T
	after := ""
	for range pagesMax {
		reply, err := c.ask(ctx, to, steerTime, messages.Placement{}, page(after))
		if err != nil {
			return nil, err
		}
		part, next, err := views[[]T](to, reply)
		if err != nil {
			return nil, err
		}
		if all = append(all, part...); next == "" {
			return all, nil
		}
		after = next
	}
	return nil, unusable("node %s gave more than %d pages", to.Name, pagesMax)
}

// views reads what another node shows.
func views[T any](to *store.Node, reply wire.Body) (v T, next string, err error) {
	result, ok := reply.(wire.Views)
	if !ok {
		return v, "", unusable("node %s gave an answer of another kind, %T", to.Name, reply)
	}
	if err := json.Unmarshal(result.View, &v); err != nil {
		return v, "", unusable("node %s gave a view that cannot be read: %v", to.Name, err)
	}
	return v, result.Next, nil
}
