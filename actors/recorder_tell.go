package actors

import (
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Telling runs code of others: callbacks, and what their messages carry. A transaction is told once, so each part of it is
// told by itself: one that panics is logged, and everybody else is told.

// tell says what has been written, the pools first: whoever is told of an outcome here and then submits the session's next
// execution finds the session free, where the pool's router is this node's.
func (r *Recorder) tell(m *recorded) {
	var pools poolRecords
	all := make([]Recorded, len(m.flight.group))
	at := 0
	for i, p := range m.flight.group {
		n := len(p.record.Items)
		all[i] = Recorded{Items: p.record.Items, Results: m.results[at : at+n], Late: p.apart != nil && p.apart.late}
		at += n
		r.count(&all[i])
		r.written(&all[i])
		if p.record.Pool != nil {
			pools.add(p.record.Pool, &all[i])
		}
	}
	if r.cfg.OnTransaction != nil {
		r.contain("transaction", func() { r.cfg.OnTransaction(all) })
	}
	for i, pid := range pools.pids {
		r.contain("pool", func() { r.cfg.System.Send(pid, &Committed{Records: pools.records[i]}) })
	}
	var told announced
	for i, p := range m.flight.group {
		r.announce(&all[i], &told)
		r.answer(p, &all[i])
	}
	if told.notices && r.cfg.Notices != nil {
		r.contain("notices", r.cfg.Notices)
	}
	if told.webhooks && r.cfg.Webhooks != nil {
		r.contain("webhooks", r.cfg.Webhooks)
	}
}

// answer replies to whoever asked for the record's changes.
func (r *Recorder) answer(p pendingRecord, done *Recorded) {
	switch {
	case p.apart != nil && p.apart.question != nil:
		p.apart.question.set(p.apart.at, done.Results[0])
	case p.answer != nil:
		p.answer.Reply(done.Results, nil)
	}
	if p.record.Reply != nil {
		r.contain("reply", func() { r.cfg.System.Send(p.record.Reply, done) })
	}
}

func (r *Recorder) count(done *Recorded) {
	if r.cfg.OnResult == nil {
		return
	}
	for i := range done.Results {
		r.contain("result", func() { r.cfg.OnResult(done.Items[i], done.Results[i]) })
	}
}

// written tells what the items bring with them for it.
func (r *Recorder) written(done *Recorded) {
	for i := range done.Items {
		if tell := done.Items[i].Written; tell != nil {
			r.contain("item", func() { tell(&done.Results[i]) })
		}
	}
}

// contain makes one part of the telling and keeps its panic from the rest.
func (r *Recorder) contain(part string, tell func()) {
	defer func() {
		failure := recover()
		if failure == nil {
			return
		}
		if now := r.world.Now(); now.Sub(r.panicTold) >= repeatTold {
			r.panicTold = now
			r.cfg.Logger.Error("telling of a transaction panicked, telling everybody else", "part", part, "panic", failure, "stack", string(debug.Stack()))
		}
	}()
	tell()
}

// announced says who else is to be told of a transaction's outcomes.
type announced struct{ notices, webhooks bool }

// announce hands outcomes to whoever waits for them, and notes whether one of them has a notice or a webhook.
func (r *Recorder) announce(done *Recorded, told *announced) {
	for i := range done.Results {
		result := &done.Results[i]
		if !result.Status.Terminal() {
			continue
		}
		switch {
		case result.Verdict == store.Applied && result.Execution != nil:
			r.logAbandoned(result.Execution)
			r.cfg.Outcomes.Publish(result.Execution)
			if r.cfg.Elsewhere != nil {
				r.cfg.Elsewhere(result.Execution)
			}
			told.notices, told.webhooks = told.notices || result.Execution.Notify, told.webhooks || result.Execution.Hooked
		case result.Verdict == store.Already: // made by a transaction whose answer was lost
			r.cfg.Outcomes.Look(done.Items[i].Change.Target())
		}
	}
}

// logAbandoned names an execution that no worker will end any more.
func (r *Recorder) logAbandoned(e *messages.Execution) {
	if e.Status != messages.Abandoned || e.Error == nil {
		return
	}
	fields := append(e.LogFields(), "attempt", e.Attempt, "action", e.Action, "worker", e.WorkerID, "reason", e.Error.Code, "error", e.Error.Message,
		"failed_by", e.Error.FailedBy)
	if !e.RetriedAs.IsZero() {
		fields = append(fields, "retried_as", e.RetriedAs)
	}
	r.abandoned.Warn(r.cfg.Logger, "execution abandoned", fields...)
}

// poolRecords groups records by pool. A node has few pools, so a scan beats a map.
type poolRecords struct {
	pids    []*actor.PID
	records [][]*Recorded
}

func (p *poolRecords) add(pid *actor.PID, done *Recorded) {
	for i, known := range p.pids {
		if known.Id == pid.Id {
			p.records[i] = append(p.records[i], done)
			return
		}
	}
	p.pids = append(p.pids, pid)
	p.records = append(p.records, []*Recorded{done})
}
