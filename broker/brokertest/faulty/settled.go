package faulty

import "github.com/troupe-run/troupe/broker"

// AckFirst acks a delivery at once and returns what settles it from then on, which does nothing. It is how a node would be whose
// deliveries are gone before their work is claimed.
func AckFirst(s broker.Settler) broker.Settler {
	_ = s.Ack() // whatever becomes of it, nobody asks again
	return settled{}
}

// settled is a delivery that is settled already.
type settled struct{}

func (settled) Ack() error      { return nil }
func (settled) Nack(bool) error { return nil }
