package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

// Bounds on what a body may hold.
const (
	WorkersMax = 1000 // workers in one snapshot; a pool with more sends changes only
	DepthMax   = 16   // levels of an inspected tree
	textMax    = 256  // bytes of a name, a reason or who asked
)

// Body is what an envelope carries: one of the types of this file, of worker.go, of pool.go, of steer.go, of publish.go and of outcome.go. Bodies are never changed once
// sent.
type Body interface {
	kind() troupev1.Kind
	encode() proto.Message
	check(messages.Placement) error
}

// Unsupported answers a kind or version that the receiver does not know.
type Unsupported struct {
	Kind    troupev1.Kind
	Version uint32
}

// Ack answers a request. An empty Refused means that it was carried out; Code is a word for it, where there is one.
type Ack struct{ Refused, Code string }

// Probe asks a peer whether it renews its lease.
type Probe struct{}

// ProbeResult is what a peer knows of the store.
type ProbeResult struct{ StoreSeen bool }

// Inspect asks for one actor, or for the root with an empty Actor, and Depth levels below it. The answer comes in pages:
// After is where the one before ended.
type Inspect struct {
	Actor string
	Depth uint32
	After string
}

// InspectResult is the answer: a view as JSON, or why there is none. Next is where its page ends; empty: it is the last.
type InspectResult struct {
	View    []byte
	Refused string
	Next    string
}

// decoders is the one table of the kinds that this binary understands.
var decoders = map[troupev1.Kind]func([]byte) (Body, error){
	troupev1.Kind_KIND_UNSUPPORTED: payload(func(p *troupev1.Unsupported) Body {
		return Unsupported{Kind: p.GetKind(), Version: p.GetVersion()}
	}),
	troupev1.Kind_KIND_ACK:          payload(func(p *troupev1.Ack) Body { return Ack{Refused: p.GetRefused(), Code: p.GetCode()} }),
	troupev1.Kind_KIND_CANCEL:       payload(cancelFromProto),
	troupev1.Kind_KIND_PROBE:        payload(func(*troupev1.Probe) Body { return Probe{} }),
	troupev1.Kind_KIND_PROBE_RESULT: payload(func(p *troupev1.ProbeResult) Body { return ProbeResult{StoreSeen: p.GetStoreSeen()} }),
	troupev1.Kind_KIND_INSPECT: payload(func(p *troupev1.Inspect) Body {
		return Inspect{Actor: p.GetActor(), Depth: p.GetDepth(), After: p.GetAfter()}
	}),
	troupev1.Kind_KIND_SNAPSHOT_REQUEST: payload(func(p *troupev1.SnapshotRequest) Body { return SnapshotRequest{Pool: p.GetPool()} }),
	troupev1.Kind_KIND_INSPECT_RESULT: payload(func(p *troupev1.InspectResult) Body {
		return InspectResult{View: p.GetView(), Refused: p.GetRefused(), Next: p.GetNext()}
	}),
	troupev1.Kind_KIND_WORKER_SNAPSHOT: tryPayload(snapshotFromProto),
	troupev1.Kind_KIND_WORKER_CHANGE:   tryPayload(changeFromProto),
	troupev1.Kind_KIND_KILL:            payload(killFromProto),
	troupev1.Kind_KIND_CORDON:          payload(cordonFromProto),
	troupev1.Kind_KIND_POOL_REPORT:     tryPayload(reportFromProto),
	troupev1.Kind_KIND_POOL_REPORT_RESULT: payload(func(p *troupev1.PoolReportResult) Body {
		return PoolReportResult{Refused: p.GetRefused(), Again: p.GetAgain(), Waiting: p.GetWaiting()}
	}),
	troupev1.Kind_KIND_END_SESSION: payload(func(p *troupev1.EndSession) Body {
		return EndSession{Pool: p.GetPool(), Slot: messages.Slot(p.GetSlot()), Session: p.GetSession(), Epoch: p.GetEpoch()}
	}),
	troupev1.Kind_KIND_DEAD_LETTERED: tryPayload(deadLetteredFromProto),
	troupev1.Kind_KIND_WHY_WAITING:   tryPayload(whyFromProto),
	troupev1.Kind_KIND_WHY_WAITING_RESULT: payload(func(p *troupev1.WhyWaitingResult) Body {
		return WhyWaitingResult{
			Reason: p.GetReason(), Message: p.GetMessage(), Refused: p.GetRefused(), Ahead: p.GetAhead(), AtLeast: p.GetAtLeast(), Line: p.GetLine(),
		}
	}),
	troupev1.Kind_KIND_DRAIN:          payload(func(p *troupev1.Drain) Body { return Drain{By: p.GetBy()} }),
	troupev1.Kind_KIND_PROBE_WORKER:   payload(probeWorkerFromProto),
	troupev1.Kind_KIND_WORKERS:        payload(func(p *troupev1.Workers) Body { return Workers{Pool: p.GetPool(), After: p.GetAfter()} }),
	troupev1.Kind_KIND_POOLS:          payload(func(p *troupev1.Pools) Body { return Pools{After: p.GetAfter(), Pool: p.GetPool()} }),
	troupev1.Kind_KIND_READINGS:       payload(func(p *troupev1.Readings) Body { return Readings{After: p.GetAfter()} }),
	troupev1.Kind_KIND_CELLS:          payload(func(p *troupev1.Cells) Body { return Cells{After: p.GetAfter()} }),
	troupev1.Kind_KIND_SIGHTS:         payload(func(p *troupev1.Sights) Body { return Sights{After: p.GetAfter()} }),
	troupev1.Kind_KIND_VIEWS:          payload(func(p *troupev1.Views) Body { return Views{View: p.GetView(), Next: p.GetNext()} }),
	troupev1.Kind_KIND_OUTPUT:         payload(func(p *troupev1.Output) Body { return Output{Feed: p.GetFeed(), From: p.GetFrom()} }),
	troupev1.Kind_KIND_OUTPUT_RESULT:  tryPayload(outputFromProto),
	troupev1.Kind_KIND_PUBLISH:        tryPayload(publishFromProto),
	troupev1.Kind_KIND_PUBLISH_RESULT: tryPayload(publishResultFromProto),
	troupev1.Kind_KIND_AWAIT:          tryPayload(awaitFromProto),
	troupev1.Kind_KIND_OUTCOMES:       tryPayload(outcomesFromProto),
}

// payload makes a decoder of a conversion that cannot fail.
func payload[T any, P interface {
	*T
	proto.Message
}](convert func(P) Body) func([]byte) (Body, error) {
	return tryPayload(func(p P) (Body, error) { return convert(p), nil })
}

func tryPayload[T any, P interface {
	*T
	proto.Message
}](convert func(P) (Body, error)) func([]byte) (Body, error) {
	return func(b []byte) (Body, error) {
		p := P(new(T))
		if err := proto.Unmarshal(b, p); err != nil {
			return nil, fmt.Errorf("payload does not parse: %w", err)
		}
		return convert(p)
	}
}

func (Unsupported) kind() troupev1.Kind   { return troupev1.Kind_KIND_UNSUPPORTED }
func (Ack) kind() troupev1.Kind           { return troupev1.Kind_KIND_ACK }
func (Probe) kind() troupev1.Kind         { return troupev1.Kind_KIND_PROBE }
func (ProbeResult) kind() troupev1.Kind   { return troupev1.Kind_KIND_PROBE_RESULT }
func (Inspect) kind() troupev1.Kind       { return troupev1.Kind_KIND_INSPECT }
func (InspectResult) kind() troupev1.Kind { return troupev1.Kind_KIND_INSPECT_RESULT }

func (b Unsupported) encode() proto.Message {
	return &troupev1.Unsupported{Kind: b.Kind, Version: b.Version}
}
func (b Ack) encode() proto.Message         { return &troupev1.Ack{Refused: b.Refused, Code: b.Code} }
func (Probe) encode() proto.Message         { return &troupev1.Probe{} }
func (b ProbeResult) encode() proto.Message { return &troupev1.ProbeResult{StoreSeen: b.StoreSeen} }
func (b Inspect) encode() proto.Message {
	return &troupev1.Inspect{Actor: b.Actor, Depth: b.Depth, After: b.After}
}
func (b InspectResult) encode() proto.Message {
	return &troupev1.InspectResult{View: b.View, Refused: b.Refused, Next: b.Next}
}

func (Unsupported) check(messages.Placement) error { return nil }
func (Probe) check(messages.Placement) error       { return nil }
func (ProbeResult) check(messages.Placement) error { return nil }

func (b Ack) check(messages.Placement) error {
	return errors.Join(checkText("refused", b.Refused), checkText("code", b.Code))
}

func (b Inspect) check(messages.Placement) error {
	if b.Depth > DepthMax {
		return fmt.Errorf("an inspect asks for %d levels, the limit is %d", b.Depth, DepthMax)
	}
	return errors.Join(checkText("actor", b.Actor), checkText("after", b.After))
}

func (b InspectResult) check(messages.Placement) error {
	return errors.Join(checkText("refused", b.Refused), checkText("next", b.Next))
}

// checkText bounds a text. Its form as UTF-8 is the encoding's own rule.
func checkText(field, s string) error {
	if len(s) > textMax {
		return fmt.Errorf("%s has %d bytes, the limit is %d", field, len(s), textMax)
	}
	return nil
}

// checkPool refuses a pool without a name as well.
func checkPool(pool string) error {
	if pool == "" {
		return errors.New("it names no pool")
	}
	return checkText("pool", pool)
}
