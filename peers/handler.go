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

// answerTime bounds the time of a handler.
const answerTime = 2 * time.Second

// Request holds what a handler gets in addition to the message.
type Request struct {
	From   messages.Incarnation // the sender, by its own claim
	About  messages.Placement   // the execution that it concerns; zero: none
	Proven bool                 // the sender knows the cluster's secret; false: it is believed to be of an older release
}

type handle struct {
	call  func(context.Context, Request, wire.Body) (wire.Body, error)
	limit time.Duration // time of the handler
	long  bool          // it may wait for actors, processes or the store
}

// Handler answers one kind of request. Handle and HandleLong make one.
type Handler struct {
	body reflect.Type
	handle
}

// Handle makes a handler from a function that answers messages of one type. It runs in its own goroutine with a
// deadline. For each peer, only a few run at a time. The same message may arrive twice. The peer gets an error as a
// refusal. The function must not wait for an actor, a process or the store: while all slots of a peer are taken, its
// other messages are not read, and it may count as cut off.
func Handle[B wire.Body](answer func(context.Context, Request, B) (wire.Body, error)) Handler {
	return handlerOf(answer, answerTime, false)
}

// HandleLong is Handle for a function that may wait for actors, processes or the store, up to a limit. For each peer,
// only a few run at a time. One more is refused with the code Crowded.
func HandleLong[B wire.Body](limit time.Duration, answer func(context.Context, Request, B) (wire.Body, error)) Handler {
	return handlerOf(answer, limit, true)
}

func handlerOf[B wire.Body](answer func(context.Context, Request, B) (wire.Body, error), limit time.Duration, long bool) Handler {
	return Handler{reflect.TypeFor[B](), handle{limit: limit, long: long,
		call: func(ctx context.Context, r Request, body wire.Body) (wire.Body, error) {
			return answer(ctx, r, body.(B))
		}}}
}

// Crowded is the code of a refusal because too many long requests of the peer run. The request changed nothing, and may
// be repeated.
const Crowded = string(messages.CodeCrowded)

// tableOf returns the handlers by the type of their requests.
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

// isAnswer reports whether a body is always an answer. An answer without a waiting request is dropped and never
// answered; otherwise two nodes could answer each other for ever.
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

// handlerFor returns the handler of a body; its call is nil if there is none.
func (n *Network) handlerFor(body wire.Body) handle { return n.handlers[reflect.TypeOf(body)] }

// refusedMax bounds the text of a refusal, in bytes, as the contract does.
const refusedMax = 256

// shorten cuts an error's text for an Ack.
func shorten(text string) string {
	if len(text) > refusedMax {
		text = text[:refusedMax]
	}
	return strings.ToValidUTF8(text, "")
}
