package router

import (
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
)

// Report is what one node tells a router of its workers of the pool. It is the same over peers and over the loop-back link.
type Report struct {
	// First and Last are the first and the last part of a whole report, which replaces all that was known of the sender.
	First, Last bool
	Wake        bool // work may have become due that no event names
	// Exact: the reports come in step with the workers, so what one does not show is not there, and the workers may be
	// placed on before the store has said what stands on them.
	Exact     bool
	Events    []roster.Event
	Delivered []Delivered // to the workers, and not claimed
}

// Delivered is a placement that has come to its worker.
type Delivered struct {
	Placement messages.Placement
	Slot      messages.Slot
}
