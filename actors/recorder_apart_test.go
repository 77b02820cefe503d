package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// picky is a store that fails every transaction with a change of certain executions, and blocks those of others.
type picky struct {
	store.Store
	mu      sync.Mutex
	fails   map[messages.ExecutionID]error
	blocked map[messages.ExecutionID]bool
	apart   int
	calls   int
	made    []store.Change // in order
	hold    chan struct{}
}

func (p *picky) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	p.mu.Lock()
	hold := p.hold
	p.calls++
	if store.WantsOwnTransaction(ctx) {
		p.apart++
	}
	p.mu.Unlock()
	if hold != nil {
		<-hold
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]store.Result, len(changes))
	var pass []store.Change
	var at []int
	for i, c := range changes {
		if err := p.fails[c.Target()]; err != nil {
			return nil, err
		}
		if p.blocked[c.Target()] {
			out[i] = store.Result{Verdict: store.Blocked, Err: store.ErrBlocked}
			continue
		}
		pass, at = append(pass, c), append(at, i)
	}
	results, err := p.Store.Apply(ctx, pass)
	for k := range results {
		out[at[k]] = results[k]
		p.made = append(p.made, pass[k])
	}
	return out, err
}

func (p *picky) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *picky) counts() (calls, apart int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls, p.apart
}

// pickyOffice is a recorder on a picky store.
func pickyOffice(t *testing.T) (*office, *picky) {
	t.Helper()
	o := newOffice(t, nil)
	p := &picky{Store: o.store, fails: map[messages.ExecutionID]error{}, blocked: map[messages.ExecutionID]bool{}}
	require.NoError(t, o.system.StopAndWait(t.Context(), o.recorder))
	o.config.Store = p
	o.spawn(t)
	return o, p
}

// errTimeout is what a statement timeout of a server looks like, errNew what nobody knows.
var (
	errTimeout = &store.PartError{Err: fmt.Errorf("statement timeout: %w", store.ErrUnavailable)}
	errNew     = errors.New("never seen before")
)

// Whatever of a group's changes is to blame for its failure is found; the others pass meanwhile, and so does what comes
// later. It is made once it can be.
func TestWhatFailsATransactionIsLeftBehindAlone(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"timeout": errTimeout, "unknown": errNew} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, p := pickyOffice(t)
			const count = 1000
			ids := o.submit(t, count+1)
			bad := []messages.ExecutionID{ids[17], ids[700]}
			p.change(func() { p.fails[bad[0]], p.fails[bad[1]] = fault, fault })
			worker, pid := hear(t, o.system, "worker")
			items := make([]Item, count)
			for i := range items {
				items[i] = Item{Change: cancelOf(ids[i])}
			}
			o.system.Send(o.recorder, &Record{Items: items, Reply: pid})
			answers := func() map[messages.ExecutionID]store.Verdict {
				told := map[messages.ExecutionID]store.Verdict{}
				for _, r := range of[*Recorded](worker) {
					for i := range r.Items {
						told[r.Items[i].Change.Target()] = r.Results[i].Verdict
					}
				}
				return told
			}
			soon(t, func() bool { return len(answers()) == count-2 }, "the others are made")
			calls, _ := p.counts()
			require.LessOrEqual(t, calls, 1+2*5*divideInto, "a bounded number of transactions")
			_, err := o.ask(t.Context(), cancelOf(ids[count]))
			require.NoError(t, err, "what comes later passes")
			state := o.config.Backlog.State()
			require.Equal(t, 2, state.Apart)
			require.Zero(t, state.Oldest)
			require.False(t, state.ApartOldest.IsZero())
			require.ErrorContains(t, state.Why, fault.Error())
			p.change(func() { clear(p.fails) })
			soon(t, func() bool { return len(answers()) == count }, "once they can be, they are made")
			require.Equal(t, store.Applied, answers()[bad[0]])
			soon(t, func() bool { return o.config.Backlog.State() == BacklogState{} }, "nothing is left")
			_, err = o.ask(t.Context(), cancelOf(bad[1]))
			require.NoError(t, err)
		})
	}
}

// running makes an execution that runs.
func running(t *testing.T, o *office, id messages.ExecutionID) {
	t.Helper()
	key := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "pool"}
	require.NoError(t, o.store.Join(t.Context(), store.Node{Incarnation: key.Incarnation, Name: "n"}, time.Hour))
	out, err := o.store.Store.Apply(t.Context(), []store.Change{
		&store.Place{ID: id, Worker: key, WorkerID: "n/pool/0", PlacedBy: key.Incarnation, ClaimWithin: time.Minute},
		&store.Claim{ID: id, Attempt: 1, Worker: key, Generation: 1},
	})
	require.NoError(t, err)
	require.Equal(t, store.Applied, out[1].Verdict)
}

func finishOf(id messages.ExecutionID, o messages.Outcome) *store.Finish {
	return &store.Finish{ID: id, Attempt: 1, Outcome: o}
}

// The changes of one execution keep their order while its row is held, and those of others pass.
func TestChangesOfAHeldRowKeepTheirOrder(t *testing.T) {
	t.Parallel()
	o, p := pickyOffice(t)
	ids := o.submit(t, 3)
	running(t, o, ids[0])
	p.change(func() { p.blocked[ids[0]] = true })
	worker, pid := hear(t, o.system, "worker")
	send := func(changes ...store.Change) {
		var items []Item
		for _, c := range changes {
			items = append(items, Item{Change: c})
		}
		o.system.Send(o.recorder, &Record{Items: items, Reply: pid})
	}
	finish := finishOf(ids[0], messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`1`)})
	send(finish, cancelOf(ids[1]))
	soon(t, func() bool { return len(of[*Recorded](worker)) == 1 }, "the other of the same record")
	require.Equal(t, ids[1], of[*Recorded](worker)[0].Items[0].Change.Target())
	soon(t, func() bool { return len(of[*Deferred](worker)) == 1 }, "told that it takes longer, once")
	late := &store.Rescue{ID: ids[0], Attempt: 1, Reason: "late"}
	send(late, cancelOf(ids[2]))
	soon(t, func() bool { return len(of[*Recorded](worker)) == 2 }, "and of a later one")
	soon(t, func() bool { return len(of[*Deferred](worker)) == 2 }, "told of what waits behind it")
	out, err := o.ask(t.Context(), cancelOf(ids[0]))
	require.NoError(t, err)
	require.Equal(t, store.Blocked, out[0].Verdict, "who asks from outside is told at once")
	p.change(func() { clear(p.blocked) })
	soon(t, func() bool { return len(of[*Recorded](worker)) == 4 }, "all of it")
	require.True(t, of[*Recorded](worker)[2].Late)
	require.True(t, of[*Recorded](worker)[3].Late)
	require.Len(t, of[*Deferred](worker), 2, "once for each change")
	p.change(func() {
		var of0 []store.Change
		for _, c := range p.made {
			if c.Target() == ids[0] {
				of0 = append(of0, c)
			}
		}
		require.Equal(t, []store.Change{finish, late}, of0)
	})
	e, err := o.store.Get(t.Context(), ids[0])
	require.NoError(t, err)
	require.Equal(t, messages.Completed, e.Status)
}

// What the store can never keep ends its execution, with an error that says so, and its retry.
func TestWhatCanNeverBeStoredEndsItsExecution(t *testing.T) {
	t.Parallel()
	never := &store.PartError{Err: errors.New("invalid memory alloc request size"), Never: true}
	for name, c := range map[string]struct {
		outcome messages.Outcome
		want    messages.Status
	}{
		"result": {messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`"big"`)}, messages.Failed},
		"error":  {messages.Outcome{Status: messages.TimedOut, Error: &messages.Error{Code: messages.CodeTimeout}}, messages.TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, p := pickyOffice(t)
			id := o.submit(t, 1)[0]
			running(t, o, id)
			p.Store = &refusing{Store: p.Store, err: never}
			wait, leave, err := o.outcomes.Subscribe(id)
			require.NoError(t, err)
			defer leave()
			worker, pid := hear(t, o.system, "worker")
			retry := &messages.Execution{ID: messages.NewExecutionID(), Action: "act", Pool: "pool", Original: id, RetryCount: 1}
			o.system.Send(o.recorder, &Record{Items: []Item{{Change: &store.Finish{ID: id, Attempt: 1, Outcome: c.outcome, Retry: retry}}}, Reply: pid})
			ended := <-wait
			require.Equal(t, c.want, ended.Status)
			require.Equal(t, messages.CodeUnstorable, ended.Error.Code)
			require.Contains(t, ended.Error.Message, "invalid memory alloc")
			require.Contains(t, ended.Error.Message, "return less")
			soon(t, func() bool { return len(of[*Recorded](worker)) == 1 }, "the worker is told once")
			e, err := o.store.Get(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, retry.ID, e.RetriedAs)
		})
	}
}

// refusing is a store that can never keep an outcome but that which says so.
type refusing struct {
	store.Store
	err error
}

func (r *refusing) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	for _, c := range changes {
		if f, ok := c.(*store.Finish); ok && (f.Outcome.Error == nil || f.Outcome.Error.Code != messages.CodeUnstorable) {
			return nil, r.err
		}
	}
	return r.Store.Apply(ctx, changes)
}

// A placement or a claim that is blocked is refused, so that its worker is free for others.
func TestABlockedPlacementIsRefused(t *testing.T) {
	t.Parallel()
	o, p := pickyOffice(t)
	id := o.submit(t, 1)[0]
	p.change(func() { p.blocked[id] = true })
	worker, pid := hear(t, o.system, "worker")
	key := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "pool"}
	o.system.Send(o.recorder, &Record{Items: []Item{{Change: &store.Place{ID: id, Worker: key, ClaimWithin: time.Minute}}}, Reply: pid})
	soon(t, func() bool { return len(of[*Recorded](worker)) == 1 }, "told")
	r := of[*Recorded](worker)[0].Results[0]
	require.Equal(t, store.Refused, r.Verdict)
	require.ErrorIs(t, r.Err, store.ErrBlocked)
	require.Equal(t, BacklogState{}, o.config.Backlog.State())
}

// A recorder that fails goes on with what was apart, and with what waited behind it.
func TestTheRecorderOutlivesItsFailureWithPartsApart(t *testing.T) {
	t.Parallel()
	o, p := pickyOffice(t)
	ids := o.submit(t, 20)
	running(t, o, ids[0])
	p.change(func() { p.blocked[ids[0]] = true })
	worker, pid := hear(t, o.system, "worker")
	for _, change := range []store.Change{
		finishOf(ids[0], messages.Outcome{Status: messages.Completed}), &store.Rescue{ID: ids[0], Attempt: 1},
	} {
		o.system.Send(o.recorder, &Record{Items: []Item{{Change: change}}, Reply: pid})
	}
	soon(t, func() bool { return o.config.Backlog.State().Apart == 1 }, "apart")
	hold := make(chan struct{})
	p.change(func() { p.hold = hold })
	_, before := p.counts()
	soon(t, func() bool { _, now := p.counts(); return now > before }, "it is being tried")
	o.system.Send(o.recorder, &Crash{Reason: "test"})
	soon(t, func() bool { _, live := o.system.Registry.Get("recorder"); return !live }, "gone")
	p.change(func() { p.hold = nil; clear(p.blocked) })
	close(hold)
	o.spawn(t)
	soon(t, func() bool { return len(of[*Recorded](worker)) == 2 }, "both are made")
}

// A transaction is bounded by the bytes that it brings, too; what is over the bound by itself goes alone.
func TestRecorderBoundsATransactionInBytes(t *testing.T) {
	t.Parallel()
	b := &Backlog{}
	keep := func(size int) {
		b.keep(&Record{Items: []Item{{Change: finishOf(messages.NewExecutionID(), messages.Outcome{Status: messages.Completed, Result: make([]byte, size)})}}})
	}
	for _, size := range []int{groupBytes / 2, groupBytes / 4, groupBytes / 2, 2 * groupBytes, 1, 1} {
		keep(size)
	}
	for _, want := range []int{2, 1, 1, 2} {
		f := b.depart(1)
		require.Equal(t, want, f.changes)
		b.landed(f)
	}
	require.Nil(t, b.depart(1))
}

// A claim that meets a held change of its execution is refused at once: its worker takes others.
func TestAClaimBehindAHeldChangeIsRefused(t *testing.T) {
	t.Parallel()
	o, p := pickyOffice(t)
	ids := o.submit(t, 2)
	running(t, o, ids[0])
	p.change(func() { p.blocked[ids[1]] = true })
	worker, pid := hear(t, o.system, "worker")
	o.system.Send(o.recorder, &Record{Items: []Item{{Change: &store.TakeBack{ID: ids[1], Attempt: 1}}}})
	soon(t, func() bool { return o.config.Backlog.State().Apart == 1 }, "apart")
	o.system.Send(o.recorder, &Record{Reply: pid, Items: []Item{
		{Change: finishOf(ids[0], messages.Outcome{Status: messages.Completed})}, {Change: &store.Claim{ID: ids[1], Attempt: 1}},
	}})
	verdicts := map[messages.ExecutionID]store.Verdict{}
	soon(t, func() bool {
		for _, r := range of[*Recorded](worker) {
			verdicts[r.Items[0].Change.Target()] = r.Results[0].Verdict
		}
		return len(verdicts) == 2
	}, "both are told while the row is held")
	require.Equal(t, map[messages.ExecutionID]store.Verdict{ids[0]: store.Applied, ids[1]: store.Refused}, verdicts)
	require.Empty(t, of[*Deferred](worker))
}

// A claim that may have been made is kept while its row is held, and its worker is told to go on.
func TestAClaimThatMayHaveBeenMadeIsDeferred(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]bool{"failure": false, "restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, p := pickyOffice(t)
			id := o.submit(t, 1)[0]
			running(t, o, id)
			hold := make(chan struct{})
			p.change(func() {
				p.hold, p.blocked[id] = hold, true
				if !crash {
					p.fails[id] = &store.PartError{Err: store.ErrUnavailable, Unsure: true}
				}
			})
			worker, pid := hear(t, o.system, "worker")
			o.system.Send(o.recorder, &Record{Reply: pid, Items: []Item{{Change: &store.Claim{ID: id, Attempt: 1}}}})
			soon(t, func() bool { calls, _ := p.counts(); return calls > 0 }, "it is being tried")
			if crash {
				o.system.Send(o.recorder, &Crash{Reason: "test"})
				soon(t, func() bool { _, live := o.system.Registry.Get("recorder"); return !live }, "gone")
				p.change(func() { p.hold = nil })
				close(hold)
				o.spawn(t)
			} else {
				p.change(func() { p.hold = nil })
				close(hold)
			}
			soon(t, func() bool { return len(of[*Deferred](worker)) == 1 }, "its worker goes on")
			require.Equal(t, &Deferred{Changes: 1, Claims: 1}, of[*Deferred](worker)[0])
			p.change(func() { clear(p.fails) })
			_, tries := p.counts()
			soon(t, func() bool { _, now := p.counts(); return now > tries }, "it is tried while the row is held")
			require.Empty(t, of[*Recorded](worker), "never refused")
			p.change(func() { clear(p.blocked) })
			soon(t, func() bool { return len(of[*Recorded](worker)) == 1 }, "told in the end")
			require.True(t, of[*Recorded](worker)[0].Late)
		})
	}
}

// A failed recorder's transactions go on for a moment beside its successor, which must not touch what they read.
func TestARecordersSuccessorLeavesItsTransactionsAlone(t *testing.T) {
	t.Parallel()
	b := &Backlog{}
	b.keep(&Record{Items: []Item{{Change: &store.Cancel{ID: messages.ExecutionID{1}}}, {Change: &store.Cancel{ID: messages.ExecutionID{2}}}}})
	whole := b.depart(1)
	before := *whole
	b.again()
	require.Equal(t, before, *whole)
	require.False(t, whole.group[0].unsure)
	next := b.depart(1)
	require.True(t, next.group[0].unsure, "it may have been made")

	require.True(t, b.divide(next, store.ErrUnavailable, time.Now()))
	part, _ := b.departApart(time.Now())
	before = *part
	b.apart.again()
	require.Equal(t, before, *part)
	for range 2 { // both executions' parts
		again, _ := b.departApart(time.Now())
		require.NotSame(t, part, again)
		if again.list()[0].Target() == part.list()[0].Target() {
			require.True(t, again.unsure)
		}
	}
}

// Where one part after the other fails, the tries come slower by a step each, up to a bound.
func TestFailuresSlowTheTriesDown(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{failuresFree: 0, failuresFree + 1: failurePause, failuresFree + 3: 3 * failurePause, 10_000: failureMax} {
		a, now := &apart{}, time.Unix(1_000_000, 0)
		for range failures {
			a.fail(store.ErrUnavailable, now)
		}
		if want == 0 {
			require.Zero(t, a.next)
			continue
		}
		require.Equal(t, now.Add(want), a.next, "%d failures", failures)
	}
}

func TestAForeignTextIsClipped(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a", clipText("a\x00"))
	require.Equal(t, strings.Repeat("x", 500)+"…", clipText(strings.Repeat("x", 10_000)))
}
