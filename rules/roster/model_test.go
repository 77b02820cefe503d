package roster

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/placement"
)

// model is the slow, obvious second version: plain lists, and after each event every held candidate judged anew, the
// best first, until nothing more can be decided. It knows no queues, parking, lines or batches.
type model struct {
	now      time.Time
	window   int // taken from the roster: the estimate has tests of its own
	workers  []*modelWorker
	held     []messages.Candidate
	flights  []*modelFlight
	sessions map[string]*modelSession
	ignored  map[messages.ExecutionID]bool
	refused  map[messages.ExecutionID]bool // for their sessions, since the last Tick
	stood    map[messages.ExecutionID]bool // refused otherwise
	wakes    int
	waking   []messages.ExecutionID // of the ignored
	settled  map[messages.ExecutionID]bool
	loading  bool
	steady   time.Time
	away     bool
	resigned bool
	uses     int
	claims   messages.Incarnation

	// decided by the last step
	places []Assignment
	allow  [][]messages.WorkerKey // for each: the workers that would do
	fails  []Fail
	backs  []TakeBack
}

type modelWorker struct {
	seen WorkerSeen
	used int
}

type modelFlight struct {
	id        messages.ExecutionID
	attempt   messages.Attempt
	worker    messages.WorkerKey
	session   string
	epoch     int64
	miss      bool
	takeBacks int
	phase     phase
	doomed    string
	claimBy   time.Time
	bind      bool
	direct    bool
	carried   bool
	wakes     int // that were heard before it
}

type modelSession struct {
	worker          messages.WorkerKey
	epoch, finished int64
	started         int64
	restored        bool
	lossTold        bool // nothing to tell a strict_fail
	asking          bool
}

func newModel(now time.Time) *model {
	return &model{now: now, steady: now, sessions: map[string]*modelSession{},
		ignored: map[messages.ExecutionID]bool{}, refused: map[messages.ExecutionID]bool{}, stood: map[messages.ExecutionID]bool{}, settled: map[messages.ExecutionID]bool{}}
}

func (m *model) worker(k messages.WorkerKey) *modelWorker {
	for _, w := range m.workers {
		if w.seen.Worker == k {
			return w
		}
	}
	return nil
}

func (m *model) flight(id messages.ExecutionID) *modelFlight {
	for _, f := range m.flights {
		if f.id == id {
			return f
		}
	}
	return nil
}

func (m *model) depth(k messages.WorkerKey) (n int) {
	for _, f := range m.flights {
		if f.worker == k {
			n++
		}
	}
	return n
}

func (m *model) present(w *modelWorker) bool {
	if w == nil || w.seen.Broken {
		return false
	}
	return w.seen.Starting || m.fresh(w) && w.seen.Grade.Takes()
}

func (m *model) fresh(w *modelWorker) bool {
	return !w.seen.BeatAt.IsZero() && m.now.Sub(w.seen.BeatAt) <= testLimit(w.seen.BeatEvery)
}

// testLimit is how old a heartbeat may be: three of the worker's own intervals, 30 s where it is not known.
func testLimit(every time.Duration) time.Duration {
	if every == 0 {
		return 30 * time.Second
	}
	return 3 * every
}

func (m *model) free(w *modelWorker) bool {
	capacity := 1
	if w.seen.Grade == health.Healthy {
		capacity += m.window
	}
	return !w.seen.Broken && !w.seen.Starting && m.fresh(w) && w.seen.Grade.Takes() && w.seen.Active && w.seen.Accepts &&
		m.depth(w.seen.Worker) < capacity
}

func (m *model) anyPresent() bool {
	return slices.ContainsFunc(m.workers, m.present)
}

func (m *model) isSteady() bool { return !m.away && m.now.Sub(m.steady) >= 10*time.Second }

func (m *model) use(k messages.WorkerKey) {
	if w := m.worker(k); w != nil {
		m.uses++
		w.used = m.uses
	}
}

// best lists the workers that may take it: those least by grade, depth and last use.
func (m *model) best(avoid messages.WorkerID) (all []messages.WorkerKey) {
	rank := func(w *modelWorker) string {
		avoided := 0
		if avoid != "" && w.seen.ID == avoid {
			avoided = 1
		}
		return fmt.Sprintf("%d %d %4d %9d", avoided, w.seen.Grade, m.depth(w.seen.Worker), w.used)
	}
	least := ""
	for _, w := range m.workers {
		if m.free(w) && (least == "" || rank(w) < least) {
			least = rank(w)
		}
	}
	for _, w := range m.workers {
		if m.free(w) && rank(w) == least {
			all = append(all, w.seen.Worker)
		}
	}
	return all
}

// decide is everything that the contract says of one candidate.
func (m *model) decide(c *messages.Candidate) (to []messages.WorkerKey, use *SessionUse, fail *Fail) {
	busy := &Fail{ID: c.ID, Attempt: c.Attempt, Code: messages.CodeSessionBusy, Message: placement.TextSessionBusy}
	if c.Session == "" {
		return m.anywhere(c, nil)
	}
	s, strictly := m.sessions[c.Session], c.Affinity != messages.AffinityHint
	if c.Affinity == messages.AffinityStrictFail && (c.Behind || m.earlier(c)) {
		return nil, nil, busy
	}
	if strictly && m.inSession(c.Session) > 0 {
		if c.Affinity == messages.AffinityStrictFail {
			return nil, nil, busy
		}
		return nil, nil, nil
	}
	if s != nil && s.asking || strictly && m.earlier(c) {
		return nil, nil, nil
	}
	if s == nil {
		return m.anywhere(c, &SessionUse{Session: c.Session, Epoch: 1, Bind: true, Hit: true, Effect: placement.Opened})
	}
	if s.worker.IsZero() || !m.present(m.worker(s.worker)) && m.isSteady() && m.onBinding(c.Session, s.epoch) == 0 {
		return m.anew(c, s)
	}
	use = &SessionUse{Session: c.Session, Epoch: s.epoch, Hit: true, Effect: placement.Hit,
		Lost: m.begunBefore(c.Session, s, s.epoch) && s.epoch > s.finished && !s.restored}
	w := m.worker(s.worker)
	switch {
	case m.free(w):
		return []messages.WorkerKey{s.worker}, use, nil
	case c.Affinity == messages.AffinityHint:
		use.Hit, use.Effect = false, placement.Miss
		return m.anywhere(c, use)
	case c.Affinity == messages.AffinityStrictFail && (m.present(w) || m.onBinding(c.Session, s.epoch) > 0):
		return nil, nil, busy
	}
	return nil, nil, nil // a strict_fail, too, while nobody can tell whether its worker has gone
}

// anew binds a session again that has no live worker.
func (m *model) anew(c *messages.Candidate, s *modelSession) ([]messages.WorkerKey, *SessionUse, *Fail) {
	begun := m.begunBefore(c.Session, s, s.epoch+1)
	told := s.lossTold && s.worker.IsZero() || !begun
	if c.Affinity == messages.AffinityStrictFail && !told {
		return nil, nil, &Fail{ID: c.ID, Attempt: c.Attempt, Code: messages.CodeSessionLost, Message: placement.TextSessionLost}
	}
	effect := placement.Lost
	if told {
		effect = placement.Opened
	}
	return m.anywhere(c, &SessionUse{Session: c.Session, Epoch: s.epoch + 1, Bind: true, Hit: true, Lost: begun, Effect: effect})
}

// begunBefore says whether something of the session has begun, or may have, before the epoch.
func (m *model) begunBefore(name string, s *modelSession, epoch int64) bool {
	if s.started > 0 {
		return s.started < epoch
	}
	return slices.ContainsFunc(m.flights, func(f *modelFlight) bool {
		return f.session == name && f.phase > placing && !f.miss && f.epoch < epoch // nobody knows yet that it has not
	})
}

func (s *modelSession) began(f *modelFlight) {
	if s != nil && s.started == 0 && !f.miss {
		s.started = f.epoch
	}
}

func (m *model) anywhere(c *messages.Candidate, use *SessionUse) ([]messages.WorkerKey, *SessionUse, *Fail) {
	if to := m.best(c.Avoid); len(to) > 0 {
		return to, use, nil
	}
	if m.anyPresent() || !m.isSteady() || c.WaitForWorker && (c.WorkerDeadline.IsZero() || m.now.Before(c.WorkerDeadline)) {
		return nil, nil, nil
	}
	text := placement.TextNoWorkers
	if len(m.workers) > 0 {
		text = placement.TextNoFreshWorkers
	}
	return nil, nil, &Fail{ID: c.ID, Attempt: c.Attempt, Code: messages.CodeNoWorkers, Message: text}
}

// inSession counts what of the session is placed; onBinding, what of it is on its worker under the epoch.
func (m *model) inSession(name string) (n int) {
	for _, f := range m.flights {
		if f.session == name {
			n++
		}
	}
	return n
}

func (m *model) onBinding(name string, epoch int64) (n int) {
	for _, f := range m.flights {
		if f.session == name && !f.miss && f.epoch == epoch {
			n++
		}
	}
	return n
}

// earlier reports whether a strict candidate of the same session comes first.
func (m *model) earlier(c *messages.Candidate) bool {
	return slices.ContainsFunc(m.held, func(o messages.Candidate) bool {
		return o.Session == c.Session && o.Affinity != messages.AffinityHint && o.Seq < c.Seq
	})
}

// round decides until nothing changes, following the roster's choice where several workers would do.
func (m *model) round(chosen []Assignment) {
	if m.resigned {
		return
	}
	slices.SortFunc(m.held, func(a, b messages.Candidate) int {
		if a.Priority != b.Priority {
			return int(b.Priority) - int(a.Priority)
		}
		return int(a.Seq - b.Seq)
	})
	for m.decideOne(chosen) {
	}
}

func (m *model) decideOne(chosen []Assignment) bool {
	for i := range m.held {
		c := m.held[i]
		to, use, fail := m.decide(&c)
		switch {
		case len(to) > 0:
			n, worker := len(m.places), to[0]
			if n < len(chosen) && slices.Contains(to, chosen[n].Worker) {
				worker = chosen[n].Worker
			}
			m.place(&c, worker, use, false)
			m.allow = append(m.allow, to)
		case fail != nil:
			m.fails = append(m.fails, *fail)
			m.ignored[c.ID] = true
			if fail.Code == messages.CodeSessionLost {
				s := m.sessions[c.Session]
				s.worker, s.lossTold = messages.WorkerKey{}, true
			}
			m.drop(c.ID)
		default:
			continue
		}
		return true
	}
	return false
}

// idle lists the workers that what is offered may be given to: with nothing on them, those least by last use.
func (m *model) idle() (all []messages.WorkerKey) {
	least := -1
	for _, w := range m.workers {
		k := w.seen.Worker
		if !m.free(w) || w.seen.Grade != health.Healthy || m.depth(k) > 0 || !m.claims.IsZero() && m.claims != k.Incarnation {
			continue
		}
		if least < 0 || w.used < least {
			least, all = w.used, nil
		}
		if w.used == least {
			all = append(all, k)
		}
	}
	return all
}

func (m *model) place(c *messages.Candidate, k messages.WorkerKey, use *SessionUse, accepted bool) {
	f := &modelFlight{id: c.ID, attempt: c.Attempt + 1, worker: k, session: c.Session, takeBacks: c.TakeBacks, wakes: m.wakes}
	m.use(k)
	if use != nil {
		f.epoch, f.miss, f.bind = use.Epoch, !use.Hit, use.Bind
		if use.Bind {
			s := m.session(c.Session)
			s.worker, s.epoch, s.restored, s.lossTold = k, use.Epoch, false, true
		}
	}
	m.drop(c.ID)
	m.flights = append(m.flights, f)
	seen := m.worker(k).seen
	direct := seen.Direct && use == nil && !accepted
	if direct {
		f.direct, f.phase, f.claimBy = true, publishing, m.now.Add(15*time.Second)
	}
	a := Assignment{ID: c.ID, Attempt: c.Attempt, Worker: k, WorkerID: seen.ID, Grade: seen.Grade, Session: use, Direct: direct}
	if f.carried = accepted && seen.Direct && !m.claims.IsZero(); f.carried {
		a.Generation = seen.Generation
	}
	m.places = append(m.places, a)
}

func (m *model) session(name string) *modelSession {
	if m.sessions[name] == nil {
		m.sessions[name] = &modelSession{lossTold: true}
	}
	return m.sessions[name]
}

func (m *model) drop(id messages.ExecutionID) {
	m.held = slices.DeleteFunc(m.held, func(c messages.Candidate) bool { return c.ID == id })
}

// forget drops what a session has waiting in order.
func (m *model) forget(name string) {
	m.held = slices.DeleteFunc(m.held, func(c messages.Candidate) bool {
		return c.Session == name && name != "" && c.Affinity != messages.AffinityHint
	})
}
