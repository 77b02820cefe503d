package router

import (
	"context"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
)

// Bounds of reloads.
const (
	reloadBatch = 100 // sessions of one batch
	reloadsOpen = 2   // batches that are read at the same time
)

// reload is a session that the store is to be asked for; asked: for the roster, which waits for the answer.
type reload struct {
	session string
	asked   bool
}

// reloads are the sessions that wait to be read, in order. They are read in batches, and few batches at a time: thousands of
// sessions may expire together, and a query for each of them would keep the store from everything else.
//
// What is read must not be older than the end of a binding that the roster has told: it would bind the session again, to a process
// that has none of its state. So a session is not read while the store is asked to end a binding of it, and what was read meanwhile
// is read again.
type reloads struct {
	waiting []reload
	pending map[reload]struct{} // those that wait, and those that are being read or wait for their retry
	open    int                 // batches that are being read
	reading map[reload]bool     // true: the store was asked to end a binding of the session since the reading began
	ending  map[string]int      // how many bindings of a session the store is asked to end
	behind  map[string][]reload // what waits for those ends
}

// add has a session read, unless it already waits.
func (q *reloads) add(one reload) {
	if _, there := q.pending[one]; there {
		return
	}
	if q.pending == nil {
		q.pending = map[reload]struct{}{}
	}
	q.pending[one] = struct{}{}
	q.waiting = append(q.waiting, one)
}

// next returns the batch to read now; none if nothing waits, or enough batches are being read.
func (q *reloads) next() []reload {
	if q.open >= reloadsOpen || len(q.waiting) == 0 {
		return nil
	}
	var batch []reload
	for len(q.waiting) > 0 && len(batch) < reloadBatch {
		one := q.waiting[0]
		q.waiting = q.waiting[1:]
		if q.ending[one.session] > 0 {
			q.behind[one.session] = append(q.behind[one.session], one)
			continue
		}
		if q.reading == nil {
			q.reading = map[reload]bool{}
		}
		q.reading[one] = false
		batch = append(batch, one)
	}
	if len(q.waiting) == 0 {
		q.waiting = nil
	}
	if len(batch) > 0 {
		q.open++
	}
	return batch
}

// isRead takes a session off those that are being read. False: what was read may be too old, and it waits again.
func (q *reloads) isRead(one reload) bool {
	again := q.reading[one]
	delete(q.reading, one)
	if again {
		q.waiting = append(q.waiting, one)
		return false
	}
	delete(q.pending, one)
	return true
}

// ends notes that the store is asked to end a binding of the session.
func (q *reloads) ends(session string) {
	if q.ending == nil {
		q.ending, q.behind = map[string]int{}, map[string][]reload{}
	}
	q.ending[session]++
	for _, one := range []reload{{session, false}, {session, true}} {
		if _, there := q.reading[one]; there {
			q.reading[one] = true
		}
	}
}

// ended notes that the store has done so.
func (q *reloads) ended(session string) {
	if q.ending[session]--; q.ending[session] > 0 {
		return
	}
	q.waiting = append(q.waiting, q.behind[session]...)
	delete(q.ending, session)
	delete(q.behind, session)
}

// reload asks the store for one session.
func (r *Router) reload(name string, asked bool) {
	r.reloads.add(reload{name, asked})
	r.readReloads()
}

// readReloads begins to read what waits, as far as its bounds allow.
func (r *Router) readReloads() {
	for batch := r.reloads.next(); batch != nil; batch = r.reloads.next() {
		r.ask(part.StoreTimeout, func(ctx context.Context) func() {
			read := r.readBatch(ctx, batch)
			return func() { r.reloaded(read) }
		})
	}
}

// batchRead is what the store answered to a batch.
type batchRead struct {
	read     []reload
	sessions []store.Session // of those, in the same order
	nodes    map[messages.Incarnation]struct{}
	unread   []reload
	err      error // why
}

// readBatch reads the sessions of a batch, and then the nodes. A session that cannot be read does not keep the others from it,
// unless the store does not answer.
func (r *Router) readBatch(ctx context.Context, batch []reload) batchRead {
	var b batchRead
	for i, one := range batch {
		session, err := r.Config.Store.GetSession(ctx, r.Config.Name, one.session)
		if err != nil && !isNotFound(err) {
			b.err = err
			b.unread = append(b.unread, one)
			if store.Unanswered(err) || ctx.Err() != nil {
				b.unread = append(b.unread, batch[i+1:]...)
				break
			}
			continue
		}
		session.Session = one.session
		b.read, b.sessions = append(b.read, one), append(b.sessions, session)
	}
	if len(b.read) == 0 {
		return b
	}
	nodes, err := r.liveNodes(ctx)
	if err != nil {
		return batchRead{unread: batch, err: err}
	}
	b.nodes = nodes
	return b
}

// reloaded tells the roster what was read of a batch. The rest is read again after a while.
func (r *Router) reloaded(b batchRead) {
	r.reloads.open--
	if len(b.unread) > 0 {
		r.Config.Logger.Warn("sessions not read, asking again", "sessions", len(b.unread), "first", b.unread[0].session, "error", b.err)
		for _, one := range b.unread {
			delete(r.reloads.reading, one)
		}
		r.later(r.RetryAfter(), func() {
			r.reloads.waiting = append(r.reloads.waiting, b.unread...)
			r.readReloads()
		})
	}
	for i, one := range b.read {
		if !r.reloads.isRead(one) {
			continue
		}
		r.sessionsRead(&poolRead{sessions: b.sessions[i : i+1], nodes: b.nodes}, one.asked)
	}
	r.readReloads()
}
