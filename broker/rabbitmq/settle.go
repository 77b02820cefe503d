package rabbitmq

import (
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/broker"
)

// verdict is what becomes of a delivery.
type verdict uint8

const (
	ack verdict = iota + 1
	nackBack
	nackDead
)

// settlement is a verdict on its way to the goroutine that owns the channel.
type settlement struct {
	tag     uint64
	verdict verdict
	size    int    // of the body, in bytes
	serial  uint64 // of the subscription
}

// unsettled is a delivery's Settler. It belongs to the channel that the delivery came by, so that it can never settle a
// message of a later connection.
type unsettled struct {
	consumer *consumer
	tag      uint64
	size     int    // of the body, in bytes
	serial   uint64 // of the subscription
	done     atomic.Bool
}

// Ack implements broker.Settler. It hands the ack to the consumer and never waits; nil does not mean that the server
// has it.
func (u *unsettled) Ack() error { return u.settle(ack) }

// Nack implements broker.Settler, in the way of Ack.
func (u *unsettled) Nack(requeue bool) error {
	if requeue {
		return u.settle(nackBack)
	}
	return u.settle(nackDead)
}

func (u *unsettled) settle(v verdict) error {
	if !u.done.CompareAndSwap(false, true) {
		return broker.ErrClosed
	}
	c := u.consumer
	if c.over.Load() || c.channel.IsClosed() {
		return broker.ErrClosed
	}
	select {
	case c.settles <- settlement{u.tag, v, u.size, u.serial}:
		return nil
	default: // it has room for the whole prefetch
		return broker.ErrClosed
	}
}

// settle sends a settlement and all that wait behind it. A failed write ends the channel, which shows elsewhere.
func (c *consumer) settle(s settlement) {
	acks := make([]uint64, 0, 1+len(c.settles))
	for more := true; more; {
		c.window.settled(s.size, s.serial)
		if s.verdict == ack {
			acks = append(acks, s.tag)
		} else {
			c.give(s.tag, s.verdict)
		}
		select {
		case s = <-c.settles:
		default:
			more = false
		}
	}
	c.held -= len(acks)
	upTo, run, single := c.ledger.acks(acks)
	if run > 0 {
		_ = c.channel.Ack(upTo, run > 1)
	}
	for _, tag := range single {
		_ = c.channel.Ack(tag, false)
	}
}

// give sends a nack.
func (c *consumer) give(tag uint64, v verdict) {
	c.held--
	c.ledger.nacked(tag)
	_ = c.channel.Nack(tag, false, v == nackBack)
}

// ledger knows which deliveries of a channel have been settled, so that a run of acks can be sent as one. The server
// numbers a channel's deliveries from 1 without gaps.
type ledger struct {
	floor   uint64              // all up to it are settled
	settled map[uint64]struct{} // those above
}

func newLedger() ledger { return ledger{settled: map[uint64]struct{}{}} }

// nacked notes a tag that was settled alone.
func (l *ledger) nacked(tag uint64) {
	l.settled[tag] = struct{}{}
	l.rise()
}

// acks takes tags that are to be acked and says how: run of them with one ack for everything up to upTo, since nothing
// below that is unsettled otherwise, and the rest singly. upTo is one of the tags: the server would take one that it
// does not hold for a wish to ack them all.
func (l *ledger) acks(tags []uint64) (upTo uint64, run int, single []uint64) {
	slices.Sort(tags)
	for i, tag := range tags {
		l.rise()
		if tag != l.floor+1 {
			for _, t := range tags[i:] {
				l.settled[t] = struct{}{}
			}
			l.rise()
			return upTo, run, tags[i:]
		}
		l.floor, upTo = tag, tag
		run++
	}
	l.rise()
	return upTo, run, nil
}

// rise lifts the floor over what is settled.
func (l *ledger) rise() {
	for {
		if _, ok := l.settled[l.floor+1]; !ok {
			return
		}
		delete(l.settled, l.floor+1)
		l.floor++
	}
}
