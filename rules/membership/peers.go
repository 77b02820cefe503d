package membership

import (
	"slices"

	"github.com/troupe-run/troupe/messages"
)

// Weight is how an incarnation that the last renewal showed counts, when this one asks whether it alone has lost the store.
type Weight uint8

// The weights.
const (
	Counts    Weight = iota // as a peer, whether it answers or not
	MayRefuse               // as a peer, unless its address refuses connections: the store has ended its own
	IfAnswers               // only where it answers: as far as is known it has ended
)

// Weight judges what the last renewal showed of another incarnation. A lease that has run out is no live peer's. Where the store has ended
// the connection of a process, a later node that has its address follows it: this one after its own restart, or another.
func (o Other) Weight() Weight {
	unheld := o.Trace.Locks && !o.Trace.Held
	switch {
	case o.Lapsed, unheld && o.Trace.Replaced:
		return IfAnswers
	case unheld:
		return MayRefuse
	}
	return Counts
}

// Asked are the incarnations that are asked for one Heard, by their weight.
type Asked [IfAnswers + 1][]messages.Incarnation

// Asked are the incarnations that an AskPeers asks now.
func (m *Machine) Asked() (a Asked) {
	for inc, weight := range m.others {
		a[weight] = append(a[weight], inc)
	}
	for _, list := range a {
		slices.SortFunc(list, compareIncarnations)
	}
	return a
}
