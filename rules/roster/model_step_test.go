package roster

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
)

// step takes an event; chosen is what the roster placed, which decides between workers that are alike.
func (m *model) step(now time.Time, e Event, chosen []Assignment) {
	m.now = now
	m.places, m.allow, m.fails, m.backs = nil, nil, nil, nil
	m.take(e)
	if offered, ok := e.(Offered); ok {
		m.offered(offered.Candidates, chosen)
		chosen = nil
	}
	m.round(chosen)
}

func (m *model) take(e Event) {
	switch e := e.(type) {
	case WorkerSeen:
		m.workerSeen(e)
	case WorkerGone:
		m.workerGone(e)
	case Beats:
		for _, k := range e.Workers {
			if w := m.worker(k); w != nil && w.seen.BeatAt.Before(e.At) {
				w.seen.BeatAt = e.At
			}
		}
	case Loaded:
		m.loaded(e)
	case Arrived:
		m.hold(e.Candidates)
	case Placed:
		m.placed(e)
	case Published:
		for _, p := range e.Placements {
			if f := m.find(p); f != nil && f.phase == publishing {
				f.phase = queued
				if !e.OK {
					m.takeBack(f, "unpublished")
				}
			}
		}
	case Claimed:
		if f := m.find(e.Placement); f != nil && f.phase != flying {
			if f.direct && f.worker != e.Worker {
				m.land(f)
				f = &modelFlight{id: f.id, attempt: f.attempt, worker: e.Worker}
				m.flights = append(m.flights, f)
			}
			f.phase = flying
			m.sessions[f.session].began(f)
			if m.worker(f.worker) == nil {
				m.land(f)
			}
		}
	case Ended:
		m.ended(e)
	case Released:
		if f := m.find(e.Placement); f != nil && (e.Worker.IsZero() || e.Worker == f.worker) {
			m.forget(f.session)
			m.land(f)
		}
	case Withdrawn:
		m.ignored[e.ID] = true
		m.drop(e.ID)
	case Doubted:
		m.session(e.Session).asking = true
	case SessionMoved:
		m.sessionMoved(e)
	case Store:
		if e.Away || m.away {
			m.steady = m.now
		}
		m.away = e.Away
	case Wake:
		m.wakes++
		for _, id := range m.waking {
			m.ignored[id] = false
		}
		m.waking = nil
	case Tick:
		m.ignored, m.refused, m.stood, m.waking = map[messages.ExecutionID]bool{}, map[messages.ExecutionID]bool{}, map[messages.ExecutionID]bool{}, nil
		m.overdue()
	}
}

// offered places what the roster has accepted, where it may: nothing is held, and the worker is idle.
func (m *model) offered(candidates []messages.Candidate, chosen []Assignment) {
	for i, a := range chosen {
		to := m.idle()
		if len(m.held) > 0 || !slices.Contains(to, a.Worker) {
			return
		}
		m.place(&candidates[i], a.Worker, nil, true)
		m.allow = append(m.allow, to)
	}
}

func (m *model) find(p messages.Placement) *modelFlight {
	if f := m.flight(p.Execution); f != nil && f.attempt == p.Attempt && f.phase != placing {
		return f
	}
	return nil
}

func (m *model) workerSeen(e WorkerSeen) {
	w := m.worker(e.Worker)
	if w == nil {
		w = &modelWorker{}
		m.workers = append(m.workers, w)
	}
	before := w.seen
	if before.Generation > 0 && e.Generation > before.Generation {
		m.endGeneration(e.Worker)
	}
	w.seen = e
	if e.Generation == before.Generation && e.BeatAt.Before(before.BeatAt) {
		w.seen.BeatAt = before.BeatAt
	}
	if before.Grade.Takes() && e.Grade > before.Grade {
		m.takeBackAll(e.Worker, "worker_"+e.Grade.String())
	}
}

func (m *model) endGeneration(k messages.WorkerKey) {
	m.takeBackAll(k, "worker_gone")
	for _, s := range m.sessions {
		if s.worker == k {
			s.worker, s.lossTold = messages.WorkerKey{}, false
		}
	}
}

func (m *model) workerGone(e WorkerGone) {
	w := m.worker(e.Worker)
	if w == nil {
		return
	}
	m.endGeneration(e.Worker)
	if e.Restarts {
		w.seen.Starting, w.seen.Accepts, w.seen.BeatAt = true, false, time.Time{}
		return
	}
	for _, f := range slices.Clone(m.flights) {
		if f.worker == e.Worker && f.phase == flying {
			m.land(f)
		}
	}
	m.workers = slices.DeleteFunc(m.workers, func(w *modelWorker) bool { return w.seen.Worker == e.Worker })
}

func (m *model) loaded(e Loaded) {
	m.loading = false
	if e.Failed {
		m.steady = m.now
	}
	m.hold(e.Candidates)
	m.settled = map[messages.ExecutionID]bool{}
}

func (m *model) hold(candidates []messages.Candidate) {
	for _, c := range candidates {
		known := slices.ContainsFunc(m.held, func(o messages.Candidate) bool { return o.ID == c.ID })
		if !known && m.flight(c.ID) == nil && !m.ignored[c.ID] && !m.settled[c.ID] {
			m.held = append(m.held, c)
		}
	}
}

func (m *model) placed(e Placed) {
	f := m.flight(e.ID)
	if f == nil || f.phase != placing {
		return
	}
	if !e.OK {
		conflict := f.session != "" && e.SessionConflict
		m.ignored[e.ID] = conflict && m.refused[e.ID] || !conflict && (m.stood[e.ID] || f.wakes == m.wakes)
		if !conflict && !m.stood[e.ID] && f.wakes == m.wakes {
			m.waking = append(m.waking, e.ID)
		}
		m.refused[e.ID] = m.refused[e.ID] || conflict
		m.stood[e.ID] = m.stood[e.ID] || !conflict
		if f.session != "" && (e.SessionConflict || f.bind) {
			m.session(f.session).asking = true
		}
		m.forget(f.session)
		m.land(f)
		return
	}
	f.attempt, f.phase, f.claimBy = e.Attempt, publishing, e.ClaimBy
	if f.carried {
		f.phase = queued
	}
	if s := m.sessions[f.session]; f.bind && s.epoch < f.epoch {
		s.asking = true
	}
	if f.doomed != "" {
		m.takeBack(f, f.doomed)
	}
}

func (m *model) ended(e Ended) {
	f := m.find(e.Placement)
	if f == nil {
		if e.Session != "" {
			m.session(e.Session).asking = true
		}
		return
	}
	m.sessions[f.session].began(f)
	if s := m.sessions[f.session]; s != nil && f.epoch == s.epoch {
		s.restored = s.restored || e.Restored
	}
	if s := m.sessions[f.session]; s != nil && e.Finished && !f.miss {
		s.finished = max(s.finished, f.epoch)
	}
	if !e.Finished {
		m.forget(f.session)
	}
	if e.Unseen && f.session != "" && !f.miss {
		m.session(f.session).asking = true
	}
	m.land(f)
}

func (m *model) land(f *modelFlight) {
	m.flights = slices.DeleteFunc(m.flights, func(o *modelFlight) bool { return o == f })
	if m.loading {
		m.settled[f.id] = true
	}
	m.use(f.worker)
}

func (m *model) takeBackAll(k messages.WorkerKey, reason string) {
	for _, f := range m.flights {
		if f.worker == k {
			m.takeBack(f, reason)
		}
	}
}

func (m *model) takeBack(f *modelFlight, reason string) {
	if f.carried {
		return
	}
	switch f.phase {
	case placing:
		f.doomed = reason
		return
	case returning, flying:
		return
	}
	f.phase, f.claimBy = returning, m.now.Add(15*time.Second)
	delay := time.Duration(0)
	if n := f.takeBacks + 1; n >= 5 {
		delay = []time.Duration{1, 2, 4, 8, 16, 30}[min(n-5, 5)] * time.Second
	}
	m.backs = append(m.backs, TakeBack{Placement: messages.Placement{Execution: f.id, Attempt: f.attempt}, Reason: reason, Delay: delay})
}

func (m *model) overdue() {
	for _, f := range m.flights {
		if f.phase > placing && f.phase < flying && !f.claimBy.After(m.now) {
			f.phase = queued
			m.takeBack(f, "unclaimed")
		}
	}
}

func (m *model) sessionMoved(e SessionMoved) {
	s := m.session(e.Session)
	s.asking = s.asking && !e.Asked
	if e.Epoch < s.epoch && (!e.Asked || m.onBinding(e.Session, s.epoch) > 0) {
		return
	}
	same := s.worker.IsZero() && s.epoch == e.Epoch
	s.restored = s.restored && s.epoch == e.Epoch
	if e.Epoch >= s.epoch {
		e.FinishedEpoch = max(e.FinishedEpoch, s.finished)
	}
	s.worker, s.epoch, s.finished = e.Worker, e.Epoch, e.FinishedEpoch
	s.started = max(s.started, e.StartedEpoch)
	if s.started == 0 || e.StartedEpoch > 0 {
		s.started = e.StartedEpoch
	}
	if m.worker(e.Worker) == nil {
		s.worker = messages.WorkerKey{}
	}
	if s.worker.IsZero() && !same {
		s.lossTold = e.Epoch == 0
	}
}

// grades that a test gives, better ones more often.
var testGrades = []health.Grade{health.Healthy, health.Healthy, health.Degraded, health.Unhealthy}
