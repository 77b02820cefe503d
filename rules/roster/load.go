package roster

// loaded takes the store's answer.
func (r *Roster) loaded(e *Loaded) {
	r.loading = false
	defer clear(r.settled)
	if e.Failed {
		r.paused, r.top = true, true
		r.unsettle()
		return
	}
	r.nextAt = e.NextAt
	fresh, single := 0, 0
	for i := range e.Candidates {
		c := &e.Candidates[i]
		if !serial(c) {
			single++
			r.cursor = position{c.Priority, c.Seq}
		}
		if r.hold(c) {
			fresh++
		}
	}
	r.rest = e.More && single > 0 && single >= r.asked
	if e.More && !r.rest && fresh > 0 {
		r.top = true // sessions have no position to go on from
	}
}

// arrived takes up what has just been stored. Where the store has more than is held, or there is no room, a look at the store
// must say what comes first. The word of what has had its placement comes late.
func (r *Roster) arrived(e *Arrived) {
	if r.rest || len(r.held)+len(e.Candidates) > r.config.HeldMax {
		r.top = true
		return
	}
	for i := range e.Candidates {
		if c := &e.Candidates[i]; !r.landed.has(c.ID) {
			r.hold(c)
		}
	}
}

// load asks for more, when there is or may be more than is held and room for it.
func (r *Roster) load() {
	if r.loading || r.paused || r.resigned || len(r.held) >= r.config.HeldMax {
		return
	}
	wanted := r.ready.len() < r.free+r.config.Margin/2
	rested := r.now.Sub(r.lastTop) >= topEvery || r.now.Before(r.lastTop)
	switch {
	case r.top && (wanted && !r.rest || rested):
		r.emitLoad(true)
	case r.rest && wanted:
		r.emitLoad(false)
	}
}

// emitLoad asks for the first page, widened by what it will show again, or for the next one.
func (r *Roster) emitLoad(top bool) {
	room := r.free + r.config.Margin
	l := Load{Limit: room, Heads: min(room+len(r.lines), r.config.LoadMax)}
	if top {
		l.Limit += r.ready.len() + r.unanswered
		r.top, r.lastTop = false, r.now
	} else {
		l.AfterPriority, l.AfterSeq = r.cursor.priority, r.cursor.seq
	}
	l.Limit = min(l.Limit, r.config.LoadMax)
	r.loading, r.asked = true, l.Limit
	r.rest = false
	r.emit(l)
}
