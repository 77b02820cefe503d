package lead

import (
	"fmt"

	"github.com/troupe-run/troupe/messages"
)

// Asked is what a router knows when a report comes.
type Asked struct {
	Mode   Mode
	Epoch  int64  // of the router
	Serves string // by the router
	Halted string // which server the router has lost; empty: none
	Known  bool   // the sender is a follower
	Opened bool   // its whole report has begun
	Whole  bool   // it has ended: the sender's share is known
	Number uint64 // of its last report that was taken
	Ended  bool   // the sender's incarnation has ended
	Report Heading
}

// Heading is the head of a report.
type Heading struct {
	Epoch       int64
	Number      uint64
	First, Last bool
	Serves      string
}

// Judge says what becomes of a report: Taken, Refused for good, or Failed for now. A report that is no part of a whole one
// is taken only from a sender whose whole one was, and nothing is taken that overtook or comes late.
func Judge(a Asked) (verdict News, why string) {
	part := a.Report.First || a.Known && a.Opened && !a.Whole
	switch {
	case a.Mode != Leading:
		return Failed, "this node is not the router of the pool"
	case a.Report.Epoch != a.Epoch:
		return Failed, fmt.Sprintf("the router's term is %d, and the report names %d", a.Epoch, a.Report.Epoch)
	case a.Ended:
		return Refused, "the sender's incarnation has ended"
	case a.Report.Serves != a.Serves:
		return Refused, "the router serves other actions, or other versions of them, in this pool"
	case a.Halted != "":
		return Failed, "the router places nothing: " + a.Halted
	case a.Known && a.Report.Number <= a.Number:
		return Failed, "a later report has been taken"
	case !a.Report.First && (!a.Known || a.Report.Number != a.Number+1):
		return Failed, "the router has not taken the report before; it takes a whole one"
	case !part && !a.Whole:
		return Failed, "the router takes a whole report first"
	}
	return Taken, ""
}

// Reconcile compares the runs that a whole report shows with those that the router has on the sender's workers. A run
// that two whole reports in a row do not show has ended without a word: the one before may have been made before the
// run's begin was known here from another source. It returns those, and those that are missed for the first time.
func Reconcile(
	shown map[messages.Placement]struct{}, running []messages.Placement, missed map[messages.Placement]struct{},
) (ended []messages.Placement, missing map[messages.Placement]struct{}) {
	missing = map[messages.Placement]struct{}{}
	for _, p := range running {
		if _, there := shown[p]; there {
			continue
		}
		if _, before := missed[p]; before {
			ended = append(ended, p)
			continue
		}
		missing[p] = struct{}{}
	}
	return ended, missing
}
