package actors

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// A transaction that failed for something in it is divided, and its parts are tried apart from all that comes after, until
// what is to blame stands alone. Later changes of the same executions wait behind them; those of others pass. While nothing
// has failed this costs nothing.

const (
	// apartLanes is how many parts may be under way at once, beside the other transactions.
	apartLanes = 2
	// apartMax bounds the executions whose changes are apart. With more, it is not single ones that are to blame, and a
	// transaction is repeated whole.
	apartMax = 8192
	// divideInto is into how many parts what failed is divided: what is to blame for a timeout fails once more at each
	// division, and 4,096 changes need 4 of them.
	divideInto = 8
	// What stands alone is repeated after a wait that doubles.
	aloneWaitMin = 250 * time.Millisecond
	aloneWaitMax = 5 * time.Second
	// Where every part fails, of which there may be many, the tries come slower.
	failuresFree = 64
	failurePause = 20 * time.Millisecond
	failureMax   = time.Second
)

// aside is what is kept of a change whose record was divided.
type aside struct {
	question *partial // whose answer it is part of; nil: it comes from an actor
	at       int      // its place there
	wait     time.Duration
	unsure   bool // it may have been made
	late     bool // who asked was told that it is deferred
}

// partial gathers the answer to a question whose changes were divided.
type partial struct {
	question *ChangeQuestion
	results  []store.Result
	left     int
}

func (p *partial) set(at int, r store.Result) {
	p.results[at] = r
	if p.left--; p.left == 0 {
		p.question.Reply(p.results, nil)
	}
}

// apart is what a backlog holds beside its queue. Only its recorder changes it.
type apart struct {
	parts  []*flight                                // that wait for their time
	air    []*flight                                // that are under way
	behind map[messages.ExecutionID][]pendingRecord // every execution that has a change here, and what came after it
	failed int                                      // tries in a row that failed
	next   time.Time                                // no try before
	why    error                                    // what the last one failed with

	refused  []pendingRecord // that are not to wait behind others; the recorder has not told it yet
	deferred []pendingRecord // that wait behind others; the recorder has not told it yet
}

// again has copies of the parts that a failed recorder had under way tried once more: its tries may still read their own.
func (a *apart) again() {
	for _, f := range a.air {
		a.parts = append(a.parts, &flight{aside: true, group: f.group, changes: f.changes, unsure: true, due: f.due, wait: f.wait})
	}
	a.air = nil
}

// singles divides records into their changes, one record each.
func singles(group []pendingRecord, unsure bool) []pendingRecord {
	var out []pendingRecord
	for _, p := range group {
		if p.apart != nil {
			p.apart.unsure = p.apart.unsure || p.unsure || unsure
			out = append(out, p)
			continue
		}
		var q *partial
		if p.answer != nil {
			q = &partial{question: p.answer, results: make([]store.Result, len(p.record.Items)), left: len(p.record.Items)}
		}
		for i := range p.record.Items {
			one := &Record{Items: p.record.Items[i : i+1 : i+1], Pool: p.record.Pool, Reply: p.record.Reply}
			out = append(out, pendingRecord{record: one, since: p.since, bytes: store.Size(one.Items[0].Change),
				apart: &aside{question: q, at: i, unsure: unsure || p.unsure}})
		}
	}
	return out
}

// target is the execution of a record of one change.
func (p *pendingRecord) target() messages.ExecutionID { return p.record.Items[0].Change.Target() }

// divert puts what waits, and meets an execution whose changes are apart, behind them.
func (b *Backlog) divert() {
	if len(b.apart.behind) == 0 {
		return
	}
	var rest []pendingRecord
	for _, p := range b.waiting {
		if !b.meetsApart(p.record) {
			rest = append(rest, p)
			continue
		}
		for _, one := range singles([]pendingRecord{p}, false) {
			if !b.meetsApart(one.record) {
				rest = append(rest, one)
				continue
			}
			b.changes--
			b.wait(one)
		}
	}
	b.waiting = rest
}

func (b *Backlog) meetsApart(r *Record) bool {
	for i := range r.Items {
		if _, met := b.apart.behind[r.Items[i].Change.Target()]; met {
			return true
		}
	}
	return false
}

// wait puts a change behind those of its execution that are apart. Who asks from outside the tree is told at once: it
// asks again, and has others to ask for.
func (b *Backlog) wait(p pendingRecord) {
	if p.apart.question != nil {
		p.apart.question.set(p.apart.at, store.Result{Verdict: store.Blocked, Err: blockedBehind(&p)})
		return
	}
	if b.park(p) {
		b.apart.behind[p.target()] = append(b.apart.behind[p.target()], p)
	}
}

// park reports whether a change may wait behind others of its execution, for as long as their row is held. A router or a
// worker does without a placement or a claim, as if its own row lock had failed. Who waits for any other is told to go on.
func (b *Backlog) park(p pendingRecord) bool {
	if p.apart.question != nil {
		return true
	}
	if dispensable(&p) {
		b.apart.refused = append(b.apart.refused, p)
		return false
	}
	if p.record.Reply != nil && !p.apart.late {
		p.apart.late = true
		b.apart.deferred = append(b.apart.deferred, p)
	}
	return true
}

// dispensable reports whether a change is refused rather than kept where it cannot be made for now.
func dispensable(p *pendingRecord) bool {
	if p.apart.unsure {
		return false
	}
	switch p.record.Items[0].Change.(type) {
	case *store.Place, *store.Claim:
		return true
	}
	return false
}

// parked takes what the recorder is to tell of changes that met others of their execution.
func (b *Backlog) parked() (refused, deferred []pendingRecord) {
	if len(b.apart.refused)+len(b.apart.deferred) == 0 { // only the recorder changes them, which is who asks
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	refused, deferred = b.apart.refused, b.apart.deferred
	b.apart.refused, b.apart.deferred = nil, nil
	return refused, deferred
}

// crowded reports whether no more may be divided.
func (b *Backlog) crowded(f *flight) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.apart.behind)+f.changes > apartMax
}

// divide replaces a transaction that failed for something in it by parts of it. It returns false where its one execution is
// to blame, whose first change is left alone in it.
func (b *Backlog) divide(f *flight, why error, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.land(f)
	b.apart.fail(why, now)
	all := singles(f.group, f.unsure)
	var order []messages.ExecutionID
	of := map[messages.ExecutionID][]pendingRecord{}
	for _, p := range all {
		if of[p.target()] == nil {
			order = append(order, p.target())
		}
		of[p.target()] = append(of[p.target()], p)
	}
	for _, id := range order {
		b.enter(id)
	}
	if len(order) == 1 {
		f.group, f.changes = all[:1], 1
		var rest []pendingRecord
		for _, p := range all[1:] {
			if b.park(p) {
				rest = append(rest, p)
			}
		}
		b.apart.behind[order[0]] = append(rest, b.apart.behind[order[0]]...)
		return false
	}
	each := (len(order) + divideInto - 1) / divideInto
	for from := 0; from < len(order); from += each {
		part := &flight{aside: true}
		for _, id := range order[from:min(from+each, len(order))] {
			part.group = append(part.group, of[id]...)
		}
		part.changes = len(part.group)
		b.apart.parts = append(b.apart.parts, part)
	}
	return true
}

// enter notes that changes of the execution are apart.
func (b *Backlog) enter(id messages.ExecutionID) {
	if b.apart.behind == nil {
		b.apart.behind = map[messages.ExecutionID][]pendingRecord{}
	}
	if _, here := b.apart.behind[id]; !here {
		b.apart.behind[id] = nil
	}
}

// fail slows the tries down where all of them fail.
func (a *apart) fail(why error, now time.Time) {
	a.why = why
	if a.failed++; a.failed > failuresFree {
		a.next = now.Add(min(time.Duration(a.failed-failuresFree)*failurePause, failureMax))
	}
}

// because notes why changes are apart.
func (b *Backlog) because(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.apart.why = why
}

// later has a part tried again that the store did not answer.
func (b *Backlog) later(f *flight, why error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.land(f)
	b.apart.fail(why, now)
	f.unsure = true
	f.wait = repeatWait(f.wait)
	f.due = now.Add(f.wait)
	b.apart.parts = append(b.apart.parts, f)
}

// settle ends a transaction: of its executions, kept are the changes that are to be tried again, each alone.
func (b *Backlog) settle(f *flight, kept []pendingRecord, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.land(f)
	if len(kept) < f.changes {
		b.committed = now
	}
	if !f.aside && len(kept) == 0 {
		return
	}
	if len(kept) < len(f.group) {
		b.apart.failed, b.apart.next = 0, time.Time{}
	}
	again := map[messages.ExecutionID]bool{}
	var first []pendingRecord
	for _, p := range kept {
		id := p.target()
		b.enter(id)
		if again[id] {
			first = append(first, p)
			continue
		}
		again[id] = true
		b.apart.parts = append(b.apart.parts, &flight{aside: true, group: []pendingRecord{p}, changes: 1, due: now.Add(p.apart.wait)})
	}
	for i := len(first) - 1; i >= 0; i-- { // they came before what waits behind
		id := first[i].target()
		b.apart.behind[id] = append([]pendingRecord{first[i]}, b.apart.behind[id]...)
	}
	if f.aside {
		b.release(f, again)
	}
}

// release lets what waited behind the executions of a part go on, but for those that are tried again.
func (b *Backlog) release(f *flight, again map[messages.ExecutionID]bool) {
	var free []pendingRecord
	for i := range f.group {
		id := f.group[i].target()
		if again[id] {
			continue
		}
		free = append(free, b.apart.behind[id]...)
		delete(b.apart.behind, id)
	}
	b.changes += len(free)
	b.waiting = append(free, b.waiting...)
}

// departApart takes a part whose time has come; nil: none may begin, and next is when one may (zero: none waits for a time).
func (b *Backlog) departApart(now time.Time) (f *flight, next time.Time) {
	if len(b.apart.parts) == 0 { // only the recorder changes it, which is who asks
		return nil, time.Time{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := &b.apart
	if len(a.air) >= apartLanes {
		return nil, time.Time{}
	}
	at := 0
	for i, p := range a.parts {
		if p.due.Before(a.parts[at].due) {
			at = i
		}
	}
	f = a.parts[at]
	if due := later(f.due, a.next); due.After(now) {
		return nil, due
	}
	a.parts = append(a.parts[:at], a.parts[at+1:]...)
	a.air = append(a.air, f)
	return f, time.Time{}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
