package placement

import (
	"fmt"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

// placed is an execution that a history has on a worker.
type placed struct {
	req Request
	v   Verdict
}

// history drives a table and the reference through the same random life of a pool.
type history struct {
	now   time.Time
	table *Table
	model *reference
	open  []placed
	// owner holds who was bound in each epoch of each session.
	owner map[Ended]messages.WorkerKey
}

func key(slot int) messages.WorkerKey {
	return messages.WorkerKey{Incarnation: messages.Incarnation{1}, Pool: "p", Slot: messages.Slot(slot)}
}

func worker(slot int) Worker {
	return Worker{
		Key: key(slot), ID: messages.NewWorkerID("n", "p", messages.Slot(slot)),
		Tier: Open, Capacity: 1,
	}
}

func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func sorted(all []Ended) []Ended {
	sort.Slice(all, func(i, j int) bool { return all[i].Session < all[j].Session })
	if len(all) == 0 {
		return nil
	}
	return all
}

func (h *history) upsert(t *rapid.T) {
	w := worker(rapid.IntRange(0, 5).Draw(t, "slot"))
	w.Tier = rapid.SampledFrom([]Tier{Open, Open, Open, LastResort, Closed, Missing, Absent}).Draw(t, "tier")
	w.Capacity = rapid.SampledFrom([]int{1, 2, 3, 6, groupsFrom - 1, groupsFrom, groupsFrom + 1}).Draw(t, "capacity")
	if old, ok := h.table.Get(w.Key); ok {
		w.Depth = old.Depth
	}
	h.table.Upsert(w)
	h.model.upsert(w)
}

func (h *history) remove(t *rapid.T) {
	k := key(rapid.IntRange(0, 5).Draw(t, "slot"))
	require.Equal(t, sorted(h.model.remove(k, h.now)), sorted(h.table.Remove(k, h.now)))
}

func (h *history) unbindWorker(t *rapid.T) {
	k := key(rapid.IntRange(0, 5).Draw(t, "slot"))
	require.Equal(t, sorted(h.model.unbindWorker(k, h.now)), sorted(h.table.UnbindWorker(k, h.now)))
}

func drawSession(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "session")
}

func (h *history) unbind(t *rapid.T) {
	name := drawSession(t)
	got, ok := h.table.Unbind(name, h.now)
	s, known := h.model.sessions[name]
	require.Equal(t, known && !s.Worker.IsZero(), ok)
	if ok {
		require.Equal(t, h.model.end(name, NotLost, h.now), got)
	}
}

func (h *history) pass(t *rapid.T) {
	h.now = h.now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 100, 299, 300}).Draw(t, "seconds")) * time.Second)
}

func (h *history) sweep(t *rapid.T) {
	got, more := h.table.Sweep(h.now, 100)
	require.False(t, more)
	require.Equal(t, sorted(h.model.sweep(h.now)), sorted(got))
}

func (h *history) settle(t *rapid.T) {
	h.model.settled = rapid.Bool().Draw(t, "settled")
	h.table.SetSettled(h.model.settled)
}

func (h *history) lookup(t *rapid.T) {
	name := drawSession(t)
	s, known := h.model.sessions[name]
	got, answer := h.table.Worker(name, h.now)
	switch {
	case !known || s.Worker.IsZero():
		require.Equal(t, NoAffinity, answer)
	case h.model.idle(s, h.now):
		require.Equal(t, SessionExpired, answer)
		h.model.end(name, IdledOut, h.now)
	default:
		require.Equal(t, Bound, answer)
		require.Equal(t, s.Worker, got)
	}
}

func (h *history) pick(t *rapid.T) {
	r := Request{
		Session: drawSession(t),
		Affinity: rapid.SampledFrom([]messages.Affinity{
			messages.AffinityNone, messages.AffinityHint, messages.AffinityStrict, messages.AffinityStrictFail,
		}).Draw(t, "affinity"),
		WaitForWorker: rapid.Bool().Draw(t, "wait"),
		Suspect:       rapid.Int64Range(0, 2).Draw(t, "suspect"),
	}
	if rapid.Bool().Draw(t, "avoid") {
		r.Avoid = worker(rapid.IntRange(0, 5).Draw(t, "avoided")).ID
		if v := h.table.Pick(&Request{}, h.now); v.Kind == Place {
			r.Avoid = v.WorkerID // the one that would be taken
		}
	}
	want, keys := h.model.pick(&r, h.now)
	got := h.table.Pick(&r, h.now)
	if got.Kind == Place {
		require.Contains(t, keys, got.Worker)
		require.True(t, h.model.isFree(got.Worker), "placed on a worker that is not free")
		want.Worker, want.WorkerID = got.Worker, h.model.workers[got.Worker].ID
	}
	require.Equal(t, want, got)
	if rapid.IntRange(0, 4).Draw(t, "commit") == 0 {
		return
	}
	h.checkOrder(t, &r, &got)
	h.checkOwner(t, &r, &got)
	h.table.Commit(&r, &got, h.now)
	h.model.commit(&r, got, h.now)
	if got.Kind == Place {
		h.open = append(h.open, placed{r, got})
	}
}

// checkOrder sees that a strict execution never joins another of its session's present epoch on the worker.
func (h *history) checkOrder(t *rapid.T, r *Request, v *Verdict) {
	if v.Kind != Place || r.Session == "" || r.Affinity == messages.AffinityHint {
		return
	}
	for _, o := range h.open {
		same := o.req.Session == r.Session && o.v.Epoch == v.Epoch && o.v.Effect != Miss
		require.False(t, same, "two executions of session %q in epoch %d", r.Session, v.Epoch)
	}
}

// checkOwner sees that one epoch of a session never has two workers.
func (h *history) checkOwner(t *rapid.T, r *Request, v *Verdict) {
	if v.Kind != Place || r.Session == "" || v.Effect == Miss {
		return
	}
	epoch := Ended{Session: r.Session, Epoch: v.Epoch}
	if before, ok := h.owner[epoch]; ok {
		require.Equal(t, before, v.Worker, "session %q has two workers in epoch %d", r.Session, v.Epoch)
	}
	h.owner[epoch] = v.Worker
}

func (h *history) finish(t *rapid.T) {
	if len(h.open) == 0 {
		return
	}
	i := rapid.IntRange(0, len(h.open)-1).Draw(t, "which")
	o := h.open[i]
	h.open = append(h.open[:i:i], h.open[i+1:]...)
	finished := rapid.IntRange(0, 3).Draw(t, "finished") > 0
	if !finished {
		h.table.Undo(&o.req, &o.v, h.now)
	} else {
		h.table.Release(o.v.Worker)
	}
	h.model.release(o.v.Worker)
	if o.req.Session == "" || o.v.Effect == Miss {
		return
	}
	if rapid.Bool().Draw(t, "had begun") {
		h.table.Began(o.req.Session, o.v.Epoch)
		s := h.model.sessions[o.req.Session]
		s.began(o.v.Epoch)
		h.model.sessions[o.req.Session] = s
	}
	if finished {
		h.table.Finished(o.req.Session, o.v.Epoch, h.now)
	}
	h.model.leave(o.req.Session, o.v.Epoch, finished, h.now)
}

func (h *history) restored(t *rapid.T) {
	name := drawSession(t)
	s, ok := h.model.sessions[name]
	if !ok {
		return
	}
	epoch := s.Epoch - int64(rapid.IntRange(0, 1).Draw(t, "older"))
	if epoch == s.Epoch {
		s.Restored = true
		h.model.sessions[name] = s
	}
	h.table.Restored(name, epoch)
}

// check compares everything the two know.
func (h *history) check(t *rapid.T) {
	bound := 0
	for name, want := range h.model.sessions {
		got, ok := h.table.Session(name)
		require.True(t, ok)
		require.Equal(t, want, got)
		if !want.Worker.IsZero() {
			bound++
		}
	}
	gotBound, gotEnded := h.table.Sessions()
	require.Equal(t, bound, gotBound)
	require.Equal(t, len(h.model.sessions)-bound, gotEnded)
	present := 0
	for k, want := range h.model.workers {
		got, ok := h.table.Get(k)
		require.True(t, ok)
		require.Equal(t, want, got)
		if h.model.isPresent(k) {
			present++
		}
	}
	workers, gotPresent := h.table.Len()
	require.Equal(t, len(h.model.workers), workers)
	require.Equal(t, present, gotPresent)
	require.Equal(t, len(h.model.candidates("")) > 0, h.table.Free())
	h.checkLinks(t)
}

// checkLinks sees that every list of the table is whole.
func (h *history) checkLinks(t *rapid.T) {
	listed := 0
	for g := range h.table.buckets {
		for d := range h.table.buckets[g] {
			b := &h.table.buckets[g][d]
			require.Equal(t, b.head != nil, h.table.filled[g]&(1<<d) != 0)
			var last *node
			for n := b.head; n != nil; n = n.next {
				require.Same(t, b, n.bucket)
				require.True(t, n.prev == last)
				require.True(t, last == nil || last.used <= n.used, "bucket is not ordered by use")
				last = n
				listed++
			}
			require.True(t, b.tail == last)
		}
	}
	require.Len(t, h.model.candidates(""), listed)
	for _, o := range []*order{&h.table.bound, &h.table.ended} {
		count := 0
		for s := o.head; s != nil; s = s.next {
			require.True(t, s.next == nil || !s.next.Touched.Before(s.Touched), "order is not by last use")
			count++
		}
		require.Equal(t, o.len, count)
	}
}

// No execution is ever placed on a worker that is not free, no session runs twice at once, no loss goes untold:
// the table agrees with a reference that shows all of that plainly, over random lives of a pool.
func TestTableAgreesWithTheObviousOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		config := Config{SessionTimeout: 300 * time.Second, SessionRetain: 10_000 * time.Hour}
		h := &history{now: start(), table: New(config), model: newReference(300 * time.Second)}
		h.owner = map[Ended]messages.WorkerKey{}
		t.Repeat(map[string]func(*rapid.T){
			"":             h.check,
			"upsert":       h.upsert,
			"upsert2":      h.upsert,
			"remove":       h.remove,
			"unbindWorker": h.unbindWorker,
			"unbind":       h.unbind,
			"pass":         h.pass,
			"pass2":        h.pass,
			"sweep":        h.sweep,
			"settle":       h.settle,
			"lookup":       h.lookup,
			"pick":         h.pick,
			"pick2":        h.pick,
			"pick3":        h.pick,
			"finish":       h.finish,
			"restored":     h.restored,
		})
	})
}

func fill(t *Table, workers, sessions int, now time.Time) {
	for i := range workers {
		t.Upsert(worker(i))
	}
	for i := range sessions {
		t.Bind(fmt.Sprintf("session-%d", i), key(i%workers), now)
	}
}
