package wire

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

// Version is the meaning of payloads that this binary speaks, and the only one that it understands.
const Version = 1

// PayloadMax bounds an encoded payload, in bytes. What is larger travels by reference to the store: a batch of the
// remoting above 4 MiB would end the whole stream between two nodes.
const PayloadMax = 256 << 10

// idLen is the length of ids on the wire, in bytes: a UUID.
const idLen = 16

// Envelope is one message between nodes, decoded.
type Envelope struct {
	// ID names this message; a reply repeats the id of its request.
	ID [idLen]byte
	// Seq grows by one with each envelope from one incarnation to one peer, from 1.
	Seq uint64
	// Placement is the execution that the message is about; zero: none.
	Placement messages.Placement
	// SentAt is the sender's clock, for people only.
	SentAt time.Time
	// From is the boot of the node that sent it.
	From messages.Incarnation
	// To is the boot of the node that it is meant for; zero: whoever gets it.
	To messages.Incarnation
	// Body is what the envelope carries; never nil.
	Body Body
}

// UnsupportedError says that the sender spoke a kind or version that this binary does not know. The receiver answers
// it with Reply and changes nothing.
type UnsupportedError struct {
	ID      [idLen]byte
	From    messages.Incarnation
	Kind    troupev1.Kind
	Version uint32
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("envelope from %s: kind %d version %d is not known here; this node speaks version %d: "+
		"bring both nodes to the same release", e.From, e.Kind, e.Version, Version)
}

// Reply is the body that answers the unknown envelope.
func (e *UnsupportedError) Reply() Unsupported { return Unsupported{Kind: e.Kind, Version: e.Version} }

// ToProto encodes e. It fails for an envelope that FromProto would refuse, so that a mistake shows at its sender.
func ToProto(e Envelope) (*troupev1.Envelope, error) {
	if e.Body == nil {
		return nil, errors.New("encode envelope: it has no body")
	}
	if err := check(e); err != nil {
		return nil, fmt.Errorf("encode envelope: %w", err)
	}
	payload, err := proto.Marshal(e.Body.encode())
	if err != nil {
		return nil, fmt.Errorf("encode envelope: payload of kind %s: %w", e.Body.kind(), err)
	}
	if len(payload) > PayloadMax {
		return nil, tooLarge(len(payload))
	}
	return &troupev1.Envelope{
		Kind:      e.Body.kind(),
		Version:   Version,
		Id:        e.ID[:],
		Seq:       e.Seq,
		Execution: idBytes(e.Placement.Execution),
		Attempt:   int32(e.Placement.Attempt),
		Payload:   payload,
		SentAt:    nanos(e.SentAt),
		From:      idBytes(e.From),
		To:        idBytes(e.To),
	}, nil
}

// FromProto decodes what came from a peer. A kind or version that is not known is an *UnsupportedError; every other
// error means that the sender broke the contract, and the envelope is dropped.
func FromProto(p *troupev1.Envelope) (Envelope, error) {
	e, err := header(p)
	if err != nil {
		return Envelope{}, fmt.Errorf("decode envelope: %w", err)
	}
	decode, known := decoders[p.GetKind()]
	if !known || p.GetVersion() != Version {
		return Envelope{}, &UnsupportedError{ID: e.ID, From: e.From, Kind: p.GetKind(), Version: p.GetVersion()}
	}
	if len(p.GetPayload()) > PayloadMax {
		return Envelope{}, tooLarge(len(p.GetPayload()))
	}
	if e.Body, err = decode(p.GetPayload()); err != nil {
		return Envelope{}, fmt.Errorf("decode envelope from %s: %s: %w", e.From, p.GetKind(), err)
	}
	if err := check(e); err != nil {
		return Envelope{}, fmt.Errorf("decode envelope from %s: %w", e.From, err)
	}
	return e, nil
}

// header reads everything but the payload.
func header(p *troupev1.Envelope) (Envelope, error) {
	var e Envelope
	if len(p.GetId()) != idLen {
		return e, fmt.Errorf("id has %d bytes, want %d", len(p.GetId()), idLen)
	}
	from, err := parseID[messages.Incarnation]("from", p.GetFrom())
	if err != nil {
		return e, err
	}
	to, err := parseID[messages.Incarnation]("to", p.GetTo())
	if err != nil {
		return e, err
	}
	execution, err := parseID[messages.ExecutionID]("execution", p.GetExecution())
	if err != nil {
		return e, err
	}
	copy(e.ID[:], p.GetId())
	e.Seq, e.From, e.To, e.SentAt = p.GetSeq(), from, to, fromNanos(p.GetSentAt())
	e.Placement = messages.Placement{Execution: execution, Attempt: messages.Attempt(p.GetAttempt())}
	return e, nil
}

// check holds for every envelope, sent or received.
func check(e Envelope) error {
	switch {
	case e.ID == [idLen]byte{}:
		return errors.New("it has no id")
	case e.From.IsZero():
		return errors.New("it does not say which incarnation sent it")
	case e.Seq == 0:
		return errors.New("its sequence number is 0, want at least 1")
	}
	if err := checkPlacement(e.Placement); err != nil {
		return err
	}
	return e.Body.check(e.Placement)
}

func checkPlacement(p messages.Placement) error {
	if p.Execution.IsZero() != (p.Attempt == 0) || p.Attempt < 0 {
		return fmt.Errorf("execution %s attempt %d is no placement: want both or neither, and a positive attempt",
			p.Execution, p.Attempt)
	}
	return nil
}

// parseID reads an id; absent bytes are the zero id, which check refuses where an id is needed.
func parseID[ID ~[idLen]byte](field string, b []byte) (ID, error) {
	switch len(b) {
	case 0:
		return ID{}, nil
	case idLen:
		return ID(b), nil
	}
	return ID{}, fmt.Errorf("%s has %d bytes, want %d or none", field, len(b), idLen)
}

// idBytes is the inverse of parseID.
func idBytes[ID ~[idLen]byte](id ID) []byte {
	if id == (ID{}) {
		return nil
	}
	raw := [idLen]byte(id)
	return raw[:]
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

func tooLarge(n int) error {
	return fmt.Errorf("envelope's payload has %d bytes, the limit is %d: send it by reference to the store", n, PayloadMax)
}
