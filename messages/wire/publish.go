package wire

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

// Bounds on what one Publish may hold.
const (
	PublishMax      = 256       // messages
	PublishBytesMax = 192 << 10 // bytes of all bodies
	queueNameMax    = 255       // bytes, as in AMQP
)

// Publish puts messages on queues of the receiving node's workers.
type Publish struct{ Messages []QueueMessage }

// QueueMessage is one message for one queue. Expiration bounds its time there; 0: the queue's own bound holds.
type QueueMessage struct {
	Queue      string
	Body       []byte
	Expiration time.Duration
}

// PublishResult answers a Publish, with a confirm for each message, in their order.
type PublishResult struct{ Confirms []troupev1.PublishConfirm }

func (Publish) kind() troupev1.Kind       { return troupev1.Kind_KIND_PUBLISH }
func (PublishResult) kind() troupev1.Kind { return troupev1.Kind_KIND_PUBLISH_RESULT }

func (b Publish) encode() proto.Message {
	p := &troupev1.Publish{Messages: make([]*troupev1.QueueMessage, len(b.Messages))}
	for i, m := range b.Messages {
		p.Messages[i] = &troupev1.QueueMessage{Queue: m.Queue, Body: m.Body, Expiration: int64(m.Expiration)}
	}
	return p
}

func (b PublishResult) encode() proto.Message { return &troupev1.PublishResult{Confirms: b.Confirms} }

func publishFromProto(p *troupev1.Publish) (Body, error) {
	if n := len(p.GetMessages()); n > PublishMax {
		return nil, fmt.Errorf("it has %d messages, the limit is %d", n, PublishMax)
	}
	b := Publish{Messages: make([]QueueMessage, len(p.GetMessages()))}
	for i, m := range p.GetMessages() {
		b.Messages[i] = QueueMessage{Queue: m.GetQueue(), Body: m.GetBody(), Expiration: time.Duration(m.GetExpiration())}
	}
	return b, nil
}

func publishResultFromProto(p *troupev1.PublishResult) (Body, error) {
	if n := len(p.GetConfirms()); n > PublishMax {
		return nil, fmt.Errorf("it has %d confirms, the limit is %d", n, PublishMax)
	}
	return PublishResult{Confirms: p.GetConfirms()}, nil
}

func (b Publish) check(messages.Placement) error {
	if n := len(b.Messages); n == 0 || n > PublishMax {
		return fmt.Errorf("it has %d messages, want 1 to %d", n, PublishMax)
	}
	bytes := 0
	for i, m := range b.Messages {
		bytes += len(m.Body)
		switch {
		case m.Queue == "" || len(m.Queue) > queueNameMax:
			return fmt.Errorf("message %d: its queue's name has %d bytes, want 1 to %d", i, len(m.Queue), queueNameMax)
		case m.Expiration < 0:
			return fmt.Errorf("message %d: expiration %s, want none or a positive one", i, m.Expiration)
		}
	}
	if bytes > PublishBytesMax {
		return fmt.Errorf("its bodies have %d bytes, the limit is %d", bytes, PublishBytesMax)
	}
	return nil
}

func (b PublishResult) check(messages.Placement) error {
	if len(b.Confirms) > PublishMax {
		return fmt.Errorf("it has %d confirms, the limit is %d", len(b.Confirms), PublishMax)
	}
	for _, c := range b.Confirms {
		if c < troupev1.PublishConfirm_PUBLISH_CONFIRM_CONFIRMED || c > troupev1.PublishConfirm_PUBLISH_CONFIRM_UNKNOWN {
			return errors.New("it has a confirm that is none")
		}
	}
	return nil
}
