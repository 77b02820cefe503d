package peers

import "sync/atomic"

// Reason is why something that came, or was to go, was dropped.
type Reason uint8

// The reasons.
const (
	Garbage     Reason = iota // it does not parse, or breaks the contract
	Misdirected               // of another type, or to another name or incarnation, than is taken
	TooLarge                  // above the bound in bytes
	Unsupported               // of a kind or version that is not known here; it was answered so
	Stale                     // an answer that nobody waits for, or not from the one who was asked
	Busy                      // too much waits for the peer already, or too many are connected
	Unproven                  // of who did not prove that it belongs to the cluster
	Unlisted                  // of who belongs to the cluster, and is not where the store knows it
	Forged                    // changed, repeated or left out in part on its way, or in the name of another
	Panicked                  // handling it panicked
	reasons                   // how many there are
)

var reasonNames = [reasons]string{"garbage", "misdirected", "too_large", "unsupported", "stale", "busy", "unproven", "unlisted", "forged", "panicked"}

func (r Reason) String() string { return reasonNames[r] }

// counts are what a network has seen. All are safe for concurrent use.
type counts struct {
	sent, received, lost atomic.Int64
	dropped              [reasons]atomic.Int64
}

func (c *counts) drop(why Reason) { c.dropped[why].Add(1) }

// Counts is what a network has seen since it was opened.
type Counts struct {
	Sent, Received int64 // envelopes; received are those that were understood
	Lost           int64 // connections to peers that ended or could not be made
	Dropped        map[Reason]int64
}

// Counts returns what the network has seen.
func (n *Network) Counts() Counts {
	c := Counts{Sent: n.counts.sent.Load(), Received: n.counts.received.Load(), Lost: n.counts.lost.Load()}
	c.Dropped = make(map[Reason]int64, reasons)
	for why := range reasons {
		c.Dropped[why] = n.counts.dropped[why].Load()
	}
	return c
}
