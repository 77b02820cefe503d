package memory

import (
	"fmt"

	"github.com/troupe-run/troupe/broker"
)

// nameMax is the length of a short string in AMQP 0-9-1, in bytes.
const nameMax = 255

func checkName(kind, name string) error {
	if name == "" {
		return fmt.Errorf("declare %s: the name is empty", kind)
	}
	if len(name) > nameMax {
		return fmt.Errorf("declare %s %s…: the name has %d bytes, at most %d are allowed", kind, name[:32], len(name), nameMax)
	}
	return nil
}

func checkQueue(q broker.Queue) error {
	if err := checkName("queue", q.Name); err != nil {
		return err
	}
	if q.TTL < 0 || q.Expires < 0 {
		return fmt.Errorf("declare queue %s: times must not be negative, got TTL %v and expires %v", q.Name, q.TTL, q.Expires)
	}
	if q.MaxLength < 0 || q.DeliveryLimit < 0 {
		return fmt.Errorf("declare queue %s: limits must not be negative, got length %d and deliveries %d",
			q.Name, q.MaxLength, q.DeliveryLimit)
	}
	return nil
}
