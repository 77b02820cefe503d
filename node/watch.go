package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// watcher looks at the node's two servers, and tells the pools and the delivery bridge when one goes or comes back.
// It decides nothing about work: whatever it says, every change is a compare-and-set, and every message may be lost.
type watcher struct {
	node     *base
	backlog  *actors.Backlog // of the recorder
	store    server
	broker   server
	doubts   chan struct{} // holds one: the store is to be asked
	member   *member
	writes   writes
	recorder recorderWatch
	full     fullness
	tasks    sync.WaitGroup
	end      context.CancelFunc // of the watch; nil: it has not begun
	refused  bool               // the broker did not let the node in
	declared atomic.Bool        // the shared topology, since the broker came
	turn     chan struct{}      // holds one: who declares it
	odd      atomic.Pointer[[]oddQueue]
	losses   losses // of shared exchanges
	// undeclared is why the broker does not declare the shared topology although it is there; nil: it has, or is away.
	undeclared atomic.Pointer[string]
}

func newWatcher(b *base, backlog *actors.Backlog) *watcher {
	logger := b.logger.Named("servers")
	return &watcher{
		node: b, backlog: backlog, doubts: make(chan struct{}, 1), turn: make(chan struct{}, 1),
		recorder: recorderWatch{logger: b.logger.Named("recorder")}, full: fullness{logger: logger},
		store: server{name: "store", logger: logger, journal: b.journal.add}, broker: server{name: "broker", logger: logger, journal: b.journal.add},
	}
}

// Suspect has the store asked soon.
func (w *watcher) Suspect() {
	select {
	case w.doubts <- struct{}{}:
	default: // it is to be asked already
	}
}

// start watches until stop. The node's broker is open; its store may not be.
func (w *watcher) start() {
	var ctx context.Context
	ctx, w.end = context.WithCancel(context.Background())
	w.tasks.Go(func() { w.run(ctx) })
	w.tasks.Go(func() { w.node.awake.Run(ctx) })
}

// stop ends the watch, where there is one.
func (w *watcher) stop() {
	if w.end != nil {
		w.end()
		w.tasks.Wait()
	}
}

func (w *watcher) run(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	asked, answers := false, make(chan error, 1)
	ask := func() {
		asked = w.node.phase.open.Load() // until then the start itself asks
		if asked {
			w.tasks.Go(func() { answers <- w.ping(ctx) })
		}
	}
	again, looking, looked, lookAgain := time.Time{}, false, make(chan struct{}, 1), nextLook(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.doubts:
			if !asked {
				ask()
			}
		case err := <-answers:
			asked, again = false, time.Now().Add(pingEvery)
			w.answered(ctx, err)
		case <-looked:
			looking, lookAgain = false, nextLook(time.Now())
		case now := <-look.C:
			w.lookAtBroker(ctx)
			w.recorder.look(w.backlog.State, now)
			if !asked && now.After(again) && !w.store.read().up {
				ask()
			}
			if !looking && now.After(lookAgain) && w.hasDeclared() {
				looking = true
				w.tasks.Go(func() { w.lookAtExchanges(ctx); looked <- struct{}{} })
			}
		}
	}
}

// ping asks the store whether it is there. It is only where it takes a write: a replica answers every question. Where the store evaluates
// leases, their renewal is that write; else a beat is made for it.
func (w *watcher) ping(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if !w.member.leases {
		_, err := w.node.store.Beat(limited, w.node.incarnation, w.node.cfg.Lease)
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("no write within %s; another program may have locked its file: %w", pingTime, err)
		}
		return err
	}
	if _, err := w.node.store.Now(limited); err != nil {
		return err
	}
	return w.writes.refused(w.member.fresh())
}

// renewed takes the end of a renewal of the lease.
func (w *watcher) renewed(err error) {
	if w.writes.note(err) {
		w.Suspect()
	}
}

// writes is what the renewals of the lease show of the store.
type writes struct {
	mu  sync.Mutex
	err error // of the last renewal
}

// note takes the end of a renewal, and reports whether the store is to be asked for it.
func (w *writes) note(err error) (news bool) {
	if errors.Is(err, context.Canceled) || errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrNotFound) {
		return false // of this node
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	news = err != nil || w.err != nil
	w.err = err
	return news
}

// refused is why the store counts as away although it answers; nil: it takes writes. One renewal that failed is no reason while the lease
// is fresh, unless the store says that it takes none.
func (w *writes) refused(fresh bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fresh && !errors.Is(w.err, store.ErrReadOnly) {
		return nil
	}
	return w.err
}

func (w *watcher) answered(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	if w.store.set(err == nil, false, reason) {
		w.changed()
	}
}

func (w *watcher) lookAtBroker(ctx context.Context) {
	s := w.node.broker.Status()
	if s.Refused && !w.refused && !w.broker.read().known {
		w.refused = true
		w.node.refuse(fmt.Errorf("broker: %s", s.Reason))
	}
	if !w.broker.set(s.Up, s.Blocked, s.Reason) {
		return
	}
	w.changed()
	if !s.Up {
		w.declared.Store(false) // it may come back without its queues
		return
	}
	if w.node.phase.open.Load() {
		w.node.system.Send(w.node.delivery, &actors.Reattach{})
	}
	w.tasks.Go(func() { w.redeclare(ctx) })
}

// redeclare makes what all nodes share once the broker is back. A refusal does not end a node that has been connected, since it may
// pass: a server that was restored may not have its users' permissions yet. It is tried again until the broker goes.
func (w *watcher) redeclare(ctx context.Context) {
	came := w.broker.read().since
	for wait := redeclareMin; ctx.Err() == nil && w.broker.read().since.Equal(came); wait = min(2*wait, redeclareMax) {
		limited, cancel := context.WithTimeout(ctx, declareTime)
		err := w.declare(limited)
		cancel()
		if err == nil || away(err) || ctx.Err() != nil || errors.Is(err, broker.ErrClosed) {
			w.undeclared.Store(nil)
			return // the next queue that is declared, or the next return of the broker, tries again
		}
		text := "declare the shared queues and exchanges: " + err.Error()
		if before := w.undeclared.Swap(&text); before == nil || *before != text {
			w.broker.logger.Error("the broker refuses the shared queues and exchanges; trying again until it does not", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	w.undeclared.Store(nil)
}

// declareTime bounds the declaration of what all nodes share. One that is refused is repeated after redeclareMin, then after longer, up to
// redeclareMax.
const (
	declareTime  = 30 * time.Second
	redeclareMin = 250 * time.Millisecond
	redeclareMax = 5 * time.Second
)

// declare makes the shared topology, unless that has been done since the broker came. One that was still under way when another
// had ended would make again, untold, what has been deleted since.
func (w *watcher) declare(ctx context.Context) error {
	if w.declared.Load() {
		return nil
	}
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return fmt.Errorf("the shared queues and exchanges are still being declared: %w: %w", broker.ErrUnavailable, ctx.Err())
	}
	if w.declared.Load() {
		return nil
	}
	odd, err := declareTopology(ctx, w.node.broker.adapter, w.node.cfg.Broker.Shared())
	if err != nil {
		return err
	}
	w.noteOdd(odd)
	w.declared.Store(len(brokenNotes(odd)) == 0) // one that cannot be used is tried again with the next queue
	return nil
}

// shared is the broker as the tree sees it: before a queue of a worker's, what all nodes share is there, so that nothing
// that expires is dropped for want of a dead-letter exchange.
type shared struct {
	broker.Broker
	adapter broker.Broker // the broker as its adapter is
	first   func(context.Context) error
	names   map[string]bool // of the queues that all nodes share
	isNear  func(queue string) bool
}

// Declare implements broker.Broker.
func (s *shared) Declare(ctx context.Context, t broker.Topology) error {
	if s.near(t) {
		return s.Broker.Declare(ctx, t)
	}
	if err := s.first(ctx); err != nil {
		return err
	}
	return s.declareBeside(ctx, t)
}

// near reports whether a topology needs nothing of the server.
func (s *shared) near(t broker.Topology) bool {
	return len(t.Exchanges)+len(t.Bindings) == 0 && len(t.Queues) > 0 &&
		!slices.ContainsFunc(t.Queues, func(q broker.Queue) bool { return !s.isNear(q.Name) })
}

// changed tells every pool how the servers stand now.
func (w *watcher) changed() {
	for name := range w.node.pools.all() {
		w.node.pools.Tell(name, &supervisor.Halt{Why: w.Halted(name)})
	}
}

// Halted is why nothing can be placed on a pool's workers now; roster.Ready: it can. A broker that is away does not halt a pool that does
// without it.
func (w *watcher) Halted(pool string) roster.Reason {
	if s := w.store.read(); !s.since.IsZero() && !s.up {
		return roster.StoreAway
	}
	if w.node.cfg.direct(pool) {
		return roster.Ready
	}
	switch s := w.node.broker.Status(); {
	case !s.Up:
		return roster.BrokerAway
	case s.Blocked:
		return roster.BrokerBlocked
	}
	return roster.Ready
}

// Waits lists the servers that the node waits for, with the reason. It does not wait for a broker that no pool uses.
func (w *watcher) Waits() []string {
	var list []string
	if text := w.store.waits(); text != "" {
		list = append(list, text)
	}
	if text := w.brokerWaits(); text != "" && !w.node.cfg.onlyDirect() {
		list = append(list, text)
	}
	return list
}

// brokerWaits is what the node waits for of its broker; empty: nothing.
func (w *watcher) brokerWaits() string {
	if text := w.broker.waits(); text != "" {
		return text
	}
	if why := w.undeclared.Load(); why != nil {
		return w.broker.name + ": " + *why
	}
	return ""
}

// brokerNotes say that a broker is away that no pool uses.
func (w *watcher) brokerNotes() []string {
	if text := w.brokerWaits(); text != "" && w.node.cfg.onlyDirect() {
		return []string{text + ": work goes on without it; submissions and notices by AMQP wait for it"}
	}
	return nil
}

// await does a step of the start that needs the store, again and again while the store is away. Any other error is
// returned: waiting would not help.
func (w *watcher) await(ctx context.Context, step func(context.Context) error) error {
	for wait := awaitMin; ; wait = min(2*wait, awaitMax) {
		err := step(ctx)
		if err == nil {
			w.store.set(true, false, "")
			return nil
		}
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
			return cause // the watch over the broker ended the start
		}
		if ctx.Err() != nil {
			return fmt.Errorf("stopped while the node waited for its store: %w", context.Cause(ctx))
		}
		if !w.node.cfg.full() || !away(err) && (w.member.before == "" || errors.Is(err, errDiedStarting)) {
			return err // a first start; one that comes back keeps its API, and says what it waits for
		}
		w.store.set(false, false, err.Error())
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// patient makes a step of the start wait for a store that is away.
func (w *watcher) patient(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return w.await(ctx, step) }
}

// How often a store that is away is tried at the start.
const (
	awaitMin = 100 * time.Millisecond
	awaitMax = time.Second
)

// gate refuses calls of the API that need the store while it is away, at once: nothing is accepted that cannot be kept,
// and callers do not pile up.
func (w *watcher) gate() *messages.Problem {
	s := w.store.read()
	switch {
	case !w.node.phase.open.Load():
		return messages.Problemf(messages.CodeStoreUnavailable, "the node is starting%s; try again",
			waiting(w.Waits()))
	case !s.since.IsZero() && !s.up:
		return messages.Problemf(messages.CodeStoreUnavailable,
			"the store is away since %s, and nothing can be kept or read until it is back; try again, with the same idempotency key "+
				"where it submits: %s", s.since.UTC().Format(time.RFC3339), messages.ClipText(s.reason, operate.FailureMax))
	}
	return nil
}

func waiting(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " and waits for the " + strings.Join(list, "; ")
}
