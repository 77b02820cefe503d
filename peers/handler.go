package peers

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
)

// answerTime bounds what a handler may take.
const answerTime = 2 * time.Second

// Request is what a handler is told beside the message.
type Request struct {
	From  messages.Incarnation // as the sender says
	About messages.Placement   // the execution that it is about; zero: none
}

type handle struct {
	call  func(context.Context, Request, wire.Body) (wire.Body, error)
	limit time.Duration // that it may take
	long  bool          // it may wait for others
}

// Handler answers one kind of request; Handle and HandleLong make it.
type Handler struct {
	body reflect.Type
	handle
}

// Handle makes a handler of a function that answers messages of one type. It runs in a goroutine of its own, few at a time
// for each peer, under a deadline. The same message may come twice. Its error is told to the peer as a refusal. It must not
// wait for an actor, a process or the store: while all of a peer's are taken nothing else of that peer is heard, and a node
// that is not heard may be thought to be cut off.
func Handle[B wire.Body](answer func(context.Context, Request, B) (wire.Body, error)) Handler {
	return handlerOf(answer, answerTime, false)
}

// HandleLong is Handle for what may wait for others, up to a limit. A few of a peer's are under way at a time, and one more
// is refused with the code Crowded.
func HandleLong[B wire.Body](limit time.Duration, answer func(context.Context, Request, B) (wire.Body, error)) Handler {
	return handlerOf(answer, limit, true)
}

func handlerOf[B wire.Body](answer func(context.Context, Request, B) (wire.Body, error), limit time.Duration, long bool) Handler {
	return Handler{reflect.TypeFor[B](), handle{limit: limit, long: long,
		call: func(ctx context.Context, r Request, body wire.Body) (wire.Body, error) {
			return answer(ctx, r, body.(B))
		}}}
}

// Crowded is the code of a refusal because too many long requests of the peer are under way; it changed nothing, and may be
// asked again.
const Crowded = string(messages.CodeCrowded)

// tableOf is the table of handlers by what they answer.
func tableOf(list []Handler) map[reflect.Type]handle {
	table := make(map[reflect.Type]handle, len(list))
	for _, h := range list {
		if _, twice := table[h.body]; twice {
			panic(fmt.Sprintf("peers: two handlers for %s", h.body))
		}
		table[h.body] = h.handle
	}
	return table
}

// isAnswer reports whether a body only ever answers another. One that nobody waits for is dropped, and never answered: two
// nodes would answer each other for ever.
func isAnswer(body wire.Body) bool {
	switch body.(type) {
	case wire.Unsupported, wire.Ack, wire.ProbeResult, wire.InspectResult, wire.PoolReportResult, wire.WhyWaitingResult, wire.Views, wire.OutputResult,
		wire.PublishResult:
		return true
	}
	return false
}

// probed answers a probe.
func (n *Network) probed(context.Context, Request, wire.Probe) (wire.Body, error) {
	return wire.ProbeResult{StoreSeen: n.cfg.Renewing()}, nil
}

// handlerFor is what answers a body; without a call: nothing does.
func (n *Network) handlerFor(body wire.Body) handle { return n.handlers[reflect.TypeOf(body)] }

// refusedMax bounds the text of a refusal, in bytes, as the contract does.
const refusedMax = 256

// shorten makes an error fit for an Ack.
func shorten(text string) string {
	if len(text) > refusedMax {
		text = text[:refusedMax]
	}
	return strings.ToValidUTF8(text, "")
}
