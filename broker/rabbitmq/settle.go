package rabbitmq

import (
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/broker"
)

// verdict says how a delivery is settled.
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

// unsettled is a delivery's Settler. It belongs to the delivery's channel, so it can never settle a message of a later
// connection.
type unsettled struct {
	consumer *consumer
	tag      uint64
	size     int    // of the body, in bytes
	serial   uint64 // of the subscription
	done     atomic.Bool
}

// Ack implements broker.Settler. It passes the ack to the consumer and never waits. nil does not mean that the server
// has it.
func (u *unsettled) Ack() error { return u.settle(ack) }

// Nack implements broker.Settler, like Ack.
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
	default: // never happens: there is room for the whole prefetch
		return broker.ErrClosed
	}
}

// settle sends a settlement and all that are queued. A failed write ends the channel, which run notices.
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
	upTo, run, single := c.settledTags.acks(acks)
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
	c.settledTags.nacked(tag)
	_ = c.channel.Nack(tag, false, v == nackBack)
}

// settledTags knows which deliveries of a channel have been settled, so that several acks can be sent as one. The
// server numbers a channel's deliveries from 1 without gaps.
type settledTags struct {
	floor   uint64              // all tags up to it are settled
	settled map[uint64]struct{} // settled tags above it
}

func newSettledTags() settledTags { return settledTags{settled: map[uint64]struct{}{}} }

// nacked records a tag that was settled singly.
func (l *settledTags) nacked(tag uint64) {
	l.settled[tag] = struct{}{}
	l.rise()
}

// acks says how to ack the tags: the first run of them with one ack for everything up to upTo, since no other tag below
// is unsettled, and the rest singly. upTo is always one of the tags: for a tag that it does not know, the server would
// ack all.
func (l *settledTags) acks(tags []uint64) (upTo uint64, run int, single []uint64) {
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

// rise raises the floor over settled tags.
func (l *settledTags) rise() {
	for {
		if _, ok := l.settled[l.floor+1]; !ok {
			return
		}
		delete(l.settled, l.floor+1)
		l.floor++
	}
}
