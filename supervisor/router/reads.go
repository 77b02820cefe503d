package router

import (
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// reads are the reads of the pool's state that are under way, and the placements that have ended meanwhile: what is read may
// show such a one as placed, and where the router's view did not have it, its session as one that has all to lose.
type reads struct {
	open   int
	ended  map[messages.Placement]struct{}
	unseen bool // the view did not have one of them
	more   bool // than are kept, of those
}

// endedMax bounds the placements that are kept. What is not kept and read as placed holds its worker's room until its claim is overdue.
const endedMax = 100_000

func (r *reads) begin() { r.open++ }

// note looks at an event before the view takes it.
func (r *reads) note(view *roster.Roster, e roster.Event) {
	if r.open == 0 {
		return
	}
	var pl messages.Placement
	switch e := e.(type) {
	case roster.Ended:
		pl = e.Placement
	case roster.Released:
		pl = e.Placement
	default:
		return
	}
	unseen := !view.Knows(pl)
	r.unseen = r.unseen || unseen
	switch {
	case len(r.ended) >= endedMax:
		r.more = r.more || unseen
	case r.ended == nil:
		r.ended = map[messages.Placement]struct{}{pl: {}}
	default:
		r.ended[pl] = struct{}{}
	}
}

// end takes the answer of one read. It takes out of what is placed what has ended, and returns the sessions that may have had one of
// those as the first run of their binding.
func (r *reads) end(sessions []store.Session, live []messages.Execution) (placed []messages.Execution, doubted []string) {
	if len(r.ended) > 0 {
		live = slices.DeleteFunc(live, func(e messages.Execution) bool {
			_, has := r.ended[e.Placement()]
			return has
		})
	}
	if r.unseen {
		held := map[string]struct{}{}
		for i := range live {
			held[live[i].Session] = struct{}{}
		}
		for i := range sessions {
			s := &sessions[i]
			if _, runs := held[s.Session]; s.FinishedEpoch < s.Epoch && (r.more || !runs) {
				doubted = append(doubted, s.Session)
			}
		}
	}
	if r.open--; r.open <= 0 {
		*r = reads{}
	}
	return live, doubted
}
