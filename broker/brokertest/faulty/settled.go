package faulty

import "github.com/troupe-run/troupe/broker"

// AckFirst acks a delivery at once and returns a settler that does nothing. It simulates a node that acks deliveries
// before it claims their work.
func AckFirst(s broker.Settler) broker.Settler {
	_ = s.Ack() // the error changes nothing
	return settled{}
}

// settled is the settler of a delivery that is settled already.
type settled struct{}

func (settled) Ack() error      { return nil }
func (settled) Nack(bool) error { return nil }
