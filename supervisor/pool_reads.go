package supervisor

import (
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/roster"
)

// reads are the reads of the pool's state that are under way, and the placements that have ended meanwhile and that the router's
// view does not have: what is read may show such a one as placed, and its session as one that has all to lose.
type reads struct {
	open  int
	ended map[messages.Placement]struct{}
	more  bool // than are kept
}

// endedMax bounds the placements that are kept.
const endedMax = 10_000

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
	if !view.Knows(pl) {
		r.over(pl)
	}
}

// over notes a placement that has ended and that the view does not have.
func (r *reads) over(pl messages.Placement) {
	switch {
	case len(r.ended) >= endedMax:
		r.more = true
	default:
		if r.ended == nil {
			r.ended = map[messages.Placement]struct{}{}
		}
		r.ended[pl] = struct{}{}
	}
}

// end takes the answer of one read, and returns what is sure of it: without the placements that have ended, and without the sessions
// that may have had one of them as the first run of their binding. Those are asked for when they are next placed.
func (r *reads) end(sessions []store.Session, live []messages.Execution) ([]store.Session, []messages.Execution) {
	if len(r.ended) > 0 {
		live = slices.DeleteFunc(live, func(e messages.Execution) bool {
			_, has := r.ended[e.Placement()]
			return has
		})
		placed := map[string]struct{}{}
		for i := range live {
			placed[live[i].Session] = struct{}{}
		}
		sessions = slices.DeleteFunc(sessions, func(s store.Session) bool {
			_, held := placed[s.Session]
			return s.FinishedEpoch < s.Epoch && (r.more || !held)
		})
	}
	if r.open--; r.open <= 0 {
		*r = reads{}
	}
	return sessions, live
}
