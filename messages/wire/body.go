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

// Body is what an envelope carries: one of the types of this file and of worker.go. Bodies are never changed once
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

// Ack answers a request. An empty Refused means that it was carried out.
type Ack struct{ Refused string }

// Cancel stops the envelope's execution if its placement is still the envelope's.
type Cancel struct{ By string }

// Probe asks a peer whether it renews its lease.
type Probe struct{}

// ProbeResult is what a peer knows of the store.
type ProbeResult struct{ StoreSeen bool }

// Inspect asks for one actor, or for the root with an empty Actor, and Depth levels below it.
type Inspect struct {
	Actor string
	Depth uint32
}

// InspectResult is the answer: a view as JSON, or why there is none.
type InspectResult struct {
	View    []byte
	Refused string
}

// decoders is the one table of the kinds that this binary understands.
var decoders = map[troupev1.Kind]func([]byte) (Body, error){
	troupev1.Kind_KIND_UNSUPPORTED: payload(func(p *troupev1.Unsupported) Body {
		return Unsupported{Kind: p.GetKind(), Version: p.GetVersion()}
	}),
	troupev1.Kind_KIND_ACK:              payload(func(p *troupev1.Ack) Body { return Ack{Refused: p.GetRefused()} }),
	troupev1.Kind_KIND_CANCEL:           payload(func(p *troupev1.Cancel) Body { return Cancel{By: p.GetBy()} }),
	troupev1.Kind_KIND_PROBE:            payload(func(*troupev1.Probe) Body { return Probe{} }),
	troupev1.Kind_KIND_PROBE_RESULT:     payload(func(p *troupev1.ProbeResult) Body { return ProbeResult{StoreSeen: p.GetStoreSeen()} }),
	troupev1.Kind_KIND_INSPECT:          payload(func(p *troupev1.Inspect) Body { return Inspect{Actor: p.GetActor(), Depth: p.GetDepth()} }),
	troupev1.Kind_KIND_SNAPSHOT_REQUEST: payload(func(p *troupev1.SnapshotRequest) Body { return SnapshotRequest{Pool: p.GetPool()} }),
	troupev1.Kind_KIND_INSPECT_RESULT: payload(func(p *troupev1.InspectResult) Body {
		return InspectResult{View: p.GetView(), Refused: p.GetRefused()}
	}),
	troupev1.Kind_KIND_WORKER_SNAPSHOT: tryPayload(snapshotFromProto),
	troupev1.Kind_KIND_WORKER_CHANGE:   tryPayload(changeFromProto),
	troupev1.Kind_KIND_KILL:            payload(killFromProto),
	troupev1.Kind_KIND_CORDON:          payload(cordonFromProto),
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
func (Cancel) kind() troupev1.Kind        { return troupev1.Kind_KIND_CANCEL }
func (Probe) kind() troupev1.Kind         { return troupev1.Kind_KIND_PROBE }
func (ProbeResult) kind() troupev1.Kind   { return troupev1.Kind_KIND_PROBE_RESULT }
func (Inspect) kind() troupev1.Kind       { return troupev1.Kind_KIND_INSPECT }
func (InspectResult) kind() troupev1.Kind { return troupev1.Kind_KIND_INSPECT_RESULT }

func (b Unsupported) encode() proto.Message {
	return &troupev1.Unsupported{Kind: b.Kind, Version: b.Version}
}
func (b Ack) encode() proto.Message         { return &troupev1.Ack{Refused: b.Refused} }
func (b Cancel) encode() proto.Message      { return &troupev1.Cancel{By: b.By} }
func (Probe) encode() proto.Message         { return &troupev1.Probe{} }
func (b ProbeResult) encode() proto.Message { return &troupev1.ProbeResult{StoreSeen: b.StoreSeen} }
func (b Inspect) encode() proto.Message     { return &troupev1.Inspect{Actor: b.Actor, Depth: b.Depth} }
func (b InspectResult) encode() proto.Message {
	return &troupev1.InspectResult{View: b.View, Refused: b.Refused}
}

func (Unsupported) check(messages.Placement) error { return nil }
func (b Ack) check(messages.Placement) error       { return checkText("refused", b.Refused) }
func (Probe) check(messages.Placement) error       { return nil }
func (ProbeResult) check(messages.Placement) error { return nil }

func (b Cancel) check(p messages.Placement) error {
	if p.Execution.IsZero() {
		return errors.New("a cancel names no execution")
	}
	return checkText("by", b.By)
}

func (b Inspect) check(messages.Placement) error {
	if b.Depth > DepthMax {
		return fmt.Errorf("an inspect asks for %d levels, the limit is %d", b.Depth, DepthMax)
	}
	return checkText("actor", b.Actor)
}

func (b InspectResult) check(messages.Placement) error { return checkText("refused", b.Refused) }

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
