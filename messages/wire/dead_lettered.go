package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

// DeadLettered says that a message on a worker's queue died, which counts against the worker.
type DeadLettered struct {
	Pool      string
	Slot      messages.Slot
	Placement messages.Placement
}

func (DeadLettered) kind() troupev1.Kind { return troupev1.Kind_KIND_DEAD_LETTERED }

func (b DeadLettered) encode() proto.Message {
	return &troupev1.DeadLettered{
		Pool: b.Pool, Slot: int32(b.Slot), Execution: idBytes(b.Placement.Execution), Attempt: int32(b.Placement.Attempt),
	}
}

func deadLetteredFromProto(p *troupev1.DeadLettered) (Body, error) {
	id, err := parseID[messages.ExecutionID]("execution", p.GetExecution())
	if err != nil {
		return nil, err
	}
	return DeadLettered{
		Pool: p.GetPool(), Slot: messages.Slot(p.GetSlot()),
		Placement: messages.Placement{Execution: id, Attempt: messages.Attempt(p.GetAttempt())},
	}, nil
}

func (b DeadLettered) check(messages.Placement) error {
	if b.Slot < 0 {
		return fmt.Errorf("slot %d, want one from 0", b.Slot)
	}
	return errors.Join(checkPool(b.Pool), checkPlaced(b.Placement))
}
