package peers

import "sync/atomic"

// Reason is why an incoming or outgoing message was dropped.
type Reason uint8

// The reasons.
const (
	Garbage     Reason = iota // it does not parse, or breaks the contract
	Misdirected               // of an unexpected type, or for another name or incarnation
	TooLarge                  // above the bound in bytes
	Unsupported               // of an unknown kind or version; the sender got that answer
	Stale                     // an answer without a waiting request, or from another node
	Busy                      // too many messages wait for the peer, or too many peers are connected
	Unproven                  // the sender did not prove that it belongs to the cluster
	Unlisted                  // the sender belongs to the cluster, but its address is not the one in the store
	Forged                    // changed, repeated or lost in part on its way, or in another node's name
	Panicked                  // handling it panicked
	reasons                   // number of reasons
)

var reasonNames = [reasons]string{"garbage", "misdirected", "too_large", "unsupported", "stale", "busy", "unproven", "unlisted", "forged", "panicked"}

func (r Reason) String() string { return reasonNames[r] }

// counts has the counters of a network. All are safe for concurrent use.
type counts struct {
	sent, received, lost atomic.Int64
	dropped              [reasons]atomic.Int64
}

func (c *counts) drop(why Reason) { c.dropped[why].Add(1) }

// Counts has the counts of a network since it was opened.
type Counts struct {
	Sent, Received int64 // envelopes; Received counts valid ones
	Lost           int64 // connections to peers that ended or could not be made
	Dropped        map[Reason]int64
}

// Counts returns the counts so far.
func (n *Network) Counts() Counts {
	c := Counts{Sent: n.counts.sent.Load(), Received: n.counts.received.Load(), Lost: n.counts.lost.Load()}
	c.Dropped = make(map[Reason]int64, reasons)
	for why := range reasons {
		c.Dropped[why] = n.counts.dropped[why].Load()
	}
	return c
}
