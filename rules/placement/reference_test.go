package placement

import (
	"sort"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// reference is the slow, obvious table: it keeps plain lists and looks at everything for every answer.
type reference struct {
	timeout  time.Duration
	settled  bool
	uses     int
	workers  map[messages.WorkerKey]Worker
	sated    map[messages.WorkerKey]bool
	used     map[messages.WorkerKey]int
	sessions map[string]Session
}

func newReference(timeout time.Duration) *reference {
	return &reference{
		timeout: timeout, workers: map[messages.WorkerKey]Worker{}, sated: map[messages.WorkerKey]bool{},
		used: map[messages.WorkerKey]int{}, sessions: map[string]Session{},
	}
}

func (m *reference) use(key messages.WorkerKey) {
	m.uses++
	m.used[key] = m.uses
}

func (m *reference) upsert(w Worker) {
	if old, ok := m.workers[w.Key]; ok && old.Depth != w.Depth {
		m.use(w.Key)
	}
	m.set(w)
}

// set keeps a worker, and whether it is sated: from when it is full until half of it has ended, or, below groupsFrom, any.
func (m *reference) set(w Worker) {
	m.workers[w.Key] = w
	switch {
	case w.Depth >= w.Capacity:
		m.sated[w.Key] = true
	case w.Depth <= w.Capacity-w.Capacity/2, w.Capacity < groupsFrom:
		m.sated[w.Key] = false
	}
}

func (m *reference) remove(key messages.WorkerKey, now time.Time) []Ended {
	ended := m.unbindWorker(key, now)
	delete(m.workers, key)
	delete(m.used, key)
	delete(m.sated, key)
	return ended
}

func (m *reference) release(key messages.WorkerKey) {
	if w, ok := m.workers[key]; ok && w.Depth > 0 {
		w.Depth--
		m.set(w)
		m.use(key)
	}
}

func (m *reference) unbindWorker(key messages.WorkerKey, now time.Time) []Ended {
	var all []Ended
	for name, s := range m.sessions {
		if s.Worker == key {
			all = append(all, m.end(name, WorkerGone, now))
		}
	}
	return all
}

func (m *reference) end(name string, loss Loss, now time.Time) Ended {
	s := m.sessions[name]
	ended := Ended{Session: name, Worker: s.Worker, Epoch: s.Epoch}
	s.Worker, s.Left, s.InFlight, s.Loss, s.Touched = messages.WorkerKey{}, s.Worker, 0, loss, now
	m.sessions[name] = s
	return ended
}

func (m *reference) idle(s Session, now time.Time) bool {
	return s.InFlight == 0 && now.Sub(s.Touched) >= m.timeout
}

func (m *reference) sweep(now time.Time) []Ended {
	var all []Ended
	for name, s := range m.sessions {
		if s.Worker.IsZero() || now.Sub(s.Touched) < m.timeout {
			continue
		}
		if s.InFlight > 0 {
			s.Touched = now
			m.sessions[name] = s
			continue
		}
		all = append(all, m.end(name, IdledOut, now))
	}
	return all
}

func (m *reference) leave(name string, epoch int64, finished bool, now time.Time) {
	s, ok := m.sessions[name]
	if !ok {
		return
	}
	if finished {
		s.began(epoch)
		s.Finished = max(s.Finished, min(epoch, s.Epoch))
	}
	if s.Epoch == epoch && !s.Worker.IsZero() {
		s.InFlight = max(0, s.InFlight-1)
		s.Touched = now
	}
	m.sessions[name] = s
}

func (m *reference) isFree(key messages.WorkerKey) bool {
	w, ok := m.workers[key]
	return ok && (w.Tier == Open || w.Tier == LastResort) && w.Depth < w.Capacity
}

func (m *reference) isPresent(key messages.WorkerKey) bool {
	w, ok := m.workers[key]
	return ok && (w.Tier == Open || w.Tier == LastResort || w.Tier == Closed)
}

// candidates lists the free workers in the order in which they should be taken. Workers that were never used come in
// no order of their own, so they share a rank.
func (m *reference) candidates(avoid messages.WorkerID) []Worker {
	var all, others []Worker
	for key, w := range m.workers {
		if !m.isFree(key) || m.sated[key] {
			continue
		}
		all = append(all, w)
		if avoid == "" || w.ID != avoid {
			others = append(others, w)
		}
	}
	if len(others) > 0 {
		all = others
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if a.Tier != b.Tier {
			return a.Tier > b.Tier
		}
		if a.Depth != b.Depth {
			return a.Depth < b.Depth
		}
		return m.used[a.Key] < m.used[b.Key]
	})
	return all
}

// pick answers as Table.Pick should, but for the worker of a placement that is not a hit: any of the returned keys.
func (m *reference) pick(r *Request, now time.Time) (Verdict, []messages.WorkerKey) {
	s, known := m.sessions[r.Session]
	strictFail := r.Affinity == messages.AffinityStrictFail
	hint := r.Affinity == messages.AffinityHint
	if r.Session == "" {
		return m.anywhere(r, now, Verdict{})
	}
	if !known {
		return m.anywhere(r, now, Verdict{Effect: Opened, Epoch: 1})
	}
	bound := !s.Worker.IsZero()
	loss := s.Loss
	switch {
	case bound && m.idle(s, now):
		loss = IdledOut
	case bound && s.InFlight == 0 && !m.isPresent(s.Worker) && m.settled:
		loss = WorkerGone
	case bound:
		return m.onBound(r, s, hint, strictFail, now)
	}
	v := Verdict{Effect: Opened, Epoch: s.Epoch + 1, Told: s.Started > 0 || r.Suspect > 0}
	if bound {
		v.Ended = Ended{Session: r.Session, Worker: s.Worker, Epoch: s.Epoch}
	}
	if !v.Told {
		loss = NotLost
	}
	if loss == WorkerGone {
		v.Effect = Lost
	} else if loss == IdledOut {
		v.Effect = Expired
	}
	if strictFail && loss != NotLost {
		code, text := messages.CodeSessionLost, TextSessionLost
		if loss == IdledOut {
			code, text = messages.CodeSessionExpired, TextSessionExpired
		}
		return Verdict{Kind: Fail, Code: code, Text: text, Effect: v.Effect, Ended: v.Ended}, nil
	}
	return m.anywhere(r, now, v)
}

func (m *reference) onBound(r *Request, s Session, hint, strictFail bool, now time.Time) (Verdict, []messages.WorkerKey) {
	started := s.Started
	if started == 0 {
		started = r.Suspect
	}
	told := started > 0 && started < s.Epoch && s.Epoch > s.Finished && !s.Restored
	if m.isFree(s.Worker) && (hint || s.InFlight == 0) {
		return Verdict{Kind: Place, Effect: Hit, Epoch: s.Epoch, Told: told}, []messages.WorkerKey{s.Worker}
	}
	if hint {
		return m.anywhere(r, now, Verdict{Effect: Miss, Epoch: s.Epoch, Told: told})
	}
	if strictFail {
		if !m.isPresent(s.Worker) && s.InFlight == 0 {
			return Verdict{Waiting: SessionWorker}, nil
		}
		return Verdict{Kind: Fail, Code: messages.CodeSessionBusy, Text: TextSessionBusy}, nil
	}
	if tier := m.workers[s.Worker].Tier; tier == Open || tier == LastResort || tier == Missing {
		s.Touched = now
		m.sessions[r.Session] = s
	}
	if s.InFlight > 0 {
		return Verdict{Waiting: SessionInOrder}, nil
	}
	return Verdict{Waiting: SessionWorker}, nil
}

func (m *reference) anywhere(r *Request, now time.Time, v Verdict) (Verdict, []messages.WorkerKey) {
	if all := m.candidates(r.Avoid); len(all) > 0 {
		v.Kind = Place
		var keys []messages.WorkerKey
		for _, w := range all {
			if w.Tier == all[0].Tier && w.Depth == all[0].Depth && m.used[w.Key] == m.used[all[0].Key] {
				keys = append(keys, w.Key)
			}
		}
		return v, keys
	}
	for key := range m.workers {
		if m.isPresent(key) {
			return Verdict{Waiting: WorkersBusy}, nil
		}
	}
	if r.WaitForWorker && (r.WorkerDeadline.IsZero() || now.Before(r.WorkerDeadline)) {
		return Verdict{Waiting: NoWorkerYet}, nil
	}
	if !m.settled {
		return Verdict{Waiting: Settling}, nil
	}
	if len(m.workers) > 0 {
		return Verdict{Kind: Fail, Code: messages.CodeNoWorkers, Text: TextNoFreshWorkers}, nil
	}
	return Verdict{Kind: Fail, Code: messages.CodeNoWorkers, Text: TextNoWorkers}, nil
}

// commit takes up a verdict whose worker is filled in.
func (m *reference) commit(r *Request, v Verdict, now time.Time) {
	if v.Kind == Fail && (v.Effect == Lost || v.Effect == Expired) {
		if s := m.sessions[r.Session]; !s.Worker.IsZero() {
			m.end(r.Session, NotLost, now)
		}
		s := m.sessions[r.Session]
		s.Loss = NotLost
		m.sessions[r.Session] = s
	}
	if v.Kind != Place {
		return
	}
	w := m.workers[v.Worker]
	w.Depth++
	m.set(w)
	m.use(v.Worker)
	if r.Session == "" || v.Effect == Miss {
		return
	}
	s := m.sessions[r.Session]
	if v.Effect != Hit {
		s = Session{Name: r.Session, Worker: v.Worker, Epoch: s.Epoch + 1, Finished: s.Finished, Started: s.Started}
	}
	s.InFlight++
	s.Touched = now
	m.sessions[r.Session] = s
}
