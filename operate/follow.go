package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/store"
)

// How a run is followed that is on another node, or may get there.
const (
	outputEvery = 150 * time.Millisecond // between two looks at a run on another node
	outputTime  = time.Second            // for one of them, where the connection is lost or nothing was heard before
	lookAgain   = time.Second            // between two looks at where an execution runs, while nothing is heard of it
)

// Follow calls each for the live events of an execution while it runs, on whatever node, then for its status. It ends with the
// execution or with ctx.
func (q *executions) Follow(ctx context.Context, id messages.ExecutionID, each func(view.Live) error) error {
	f := &following{executions: q, id: id, each: each}
	for first := true; ; first = false {
		over, leave, err := q.cfg.Outcomes.Subscribe(id)
		if err != nil {
			return err
		}
		e, err := q.Get(store.Bare(ctx), id)
		if err == nil {
			err = f.stage(ctx, &e, first, over)
		}
		leave()
		if err != nil || e.Status.Terminal() {
			return err
		}
	}
}

// following is one caller's view of a run.
type following struct {
	*executions
	id   messages.ExecutionID
	each func(view.Live) error

	run     messages.Placement // whose events are read from another node
	next    actors.Poll        // where that stands
	ended   bool               // its feed has ended
	silent  string             // why nothing is heard of it; empty: something is
	missed  bool               // something may have been missed
	printed bool               // something that it said has been passed on
	at      actors.Poll        // where this node's own feeds of it have been read to
}

// stage passes on what happens until one should look again where the execution is.
func (f *following) stage(ctx context.Context, e *messages.Execution, first bool, over <-chan *messages.Execution) error {
	if err := f.moved(e); err != nil {
		return err
	}
	if e.Status.Terminal() {
		return f.end(ctx, e, first)
	}
	if first {
		if err := f.each(view.Live{Kind: "status", At: time.Now(), Status: e.Status}); err != nil {
			return err
		}
	}
	if f.remoteRun(e) {
		return f.remote(ctx, e, over)
	}
	return f.local(ctx, over)
}

// moved says that an execution is tried again whose earlier run was followed on another node.
func (f *following) moved(e *messages.Execution) error {
	before := f.run
	if before == (messages.Placement{}) || before == e.Placement() && (f.remoteRun(e) || e.Status.Terminal()) {
		return nil
	}
	f.run, f.missed = messages.Placement{}, f.missed || !f.ended
	if f.silent == "" && !f.printed {
		return nil // it had not begun, or said nothing
	}
	f.silent = ""
	return f.notice("its run there is over without an outcome, and it is tried again")
}

// remoteRun reports whether the execution stands on another node's worker.
func (q *executions) remoteRun(e *messages.Execution) bool {
	switch e.Status {
	case messages.Scheduled, messages.Running, messages.Cancelling:
		return !e.Worker.IsZero() && e.Worker.Incarnation != q.cfg.Incarnation
	}
	return false
}

// end passes on what was not seen live, as far as there is any of it, and the status.
func (f *following) end(ctx context.Context, e *messages.Execution, first bool) error {
	if !first {
		if err := f.rest(ctx); err != nil {
			return err
		}
	}
	if first || f.missed && !f.printed {
		if err := f.replay(ctx, f.id, f.each); err != nil {
			return err
		}
	}
	if lost := lostOutput(e); lost != "" {
		if err := f.notice("%s", lost); err != nil {
			return err
		}
	} else if f.missed {
		if err := f.notice("something that it said may be missing above; `troupe logs %s` prints what is stored of it", f.id); err != nil {
			return err
		}
	}
	return f.each(view.Live{Kind: "status", At: e.FinishedAt, Status: e.Status})
}

// rest passes on what a later attempt said on this node, and ended, while the earlier one's node was asked.
func (f *following) rest(ctx context.Context) error {
	over := make(chan *messages.Execution)
	close(over)
	return f.read(ctx, over)
}

// read passes on what this node's next feed of the execution has, until that ends or over does.
func (f *following) read(ctx context.Context, over <-chan *messages.Execution) (err error) {
	f.at, err = f.cfg.Feeds.FollowFrom(ctx, f.id, f.at, over, func(h messages.RunEvent) error { return f.pass(live(h)) })
	return err
}

// notice says something of the node's own to the follower.
func (f *following) notice(format string, args ...any) error {
	return f.each(view.Live{Kind: "notice", At: time.Now(), Message: fmt.Sprintf(format, args...)})
}

// local follows what runs, or may come to run, on this node, until its outcome is told or it turns out to be on another
// node. A run's feed ends just before its outcome is written.
func (f *following) local(ctx context.Context, over <-chan *messages.Execution) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan *messages.Execution)
	go func() {
		defer close(stop)
		f.untilMoved(ctx, over)
	}()
	for {
		if err := f.read(ctx, stop); err != nil {
			return err
		}
		select {
		case <-stop:
			return context.Cause(ctx)
		default:
		}
	}
}

// untilMoved returns once the outcome is told, the execution stands on another node, or ctx ends. While no other node lives
// it asks nothing.
func (f *following) untilMoved(ctx context.Context, over <-chan *messages.Execution) {
	tick := time.NewTicker(lookAgain / 2)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if f.cfg.Members.Others() == 0 {
			continue
		}
		if e, err := f.readOnce(ctx, f.id); err == nil && (f.remoteRun(&e) || e.Status.Terminal()) {
			return
		}
	}
}

// remote follows what runs on another node, for as long as there is something to read or the node is silent for a moment.
func (f *following) remote(ctx context.Context, e *messages.Execution, over <-chan *messages.Execution) error {
	if run := e.Placement(); run != f.run {
		f.run, f.next, f.ended = run, actors.Poll{}, false
	}
	heard := time.Now()
	for told := false; ; {
		f.cfg.Feeds.Await(f.id) // its next attempt may be here, and short
		part, err := f.poll(ctx, e)
		switch {
		case err != nil:
			if err := f.unheard(ctx, e, err); err != nil {
				return err
			}
			wait(ctx, over, lookAgain/2)
			return nil
		case len(part.Entries) > 0 || part.More:
			heard = time.Now()
		}
		switch {
		case part.More:
			continue
		case told || ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Since(heard) >= lookAgain:
			return nil
		}
		told = wait(ctx, over, outputEvery)
	}
}

// wait waits for the outcome to be told, or for a time, or for the end of ctx.
func wait(ctx context.Context, over <-chan *messages.Execution, d time.Duration) (told bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-over:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// poll passes on what the other node has seen since the last look.
func (f *following) poll(ctx context.Context, e *messages.Execution) (wire.OutputResult, error) {
	if f.ended {
		return wire.OutputResult{}, nil
	}
	part, err := f.look(ctx, e)
	if err != nil {
		return part, err
	}
	if f.silent != "" {
		f.silent = ""
		if err := f.notice("node %s answers again", nodeOf(e)); err != nil {
			return part, err
		}
	}
	if part.Lost > 0 {
		at := time.Now()
		if len(part.Entries) > 0 {
			at = part.Entries[0].At
		}
		if err := f.pass(live(messages.NotKept(part.Lost, at))); err != nil {
			return part, &gone{err}
		}
	}
	for i := range part.Entries {
		if err := f.pass(liveOf(&part.Entries[i])); err != nil {
			return part, &gone{err}
		}
	}
	f.next, f.ended = actors.Poll{Feed: part.Feed, From: part.Next}, part.Ended
	return part, nil
}

// look asks for what the other node has seen since the last look. A busy node has as long for that as for other questions.
func (f *following) look(ctx context.Context, e *messages.Execution) (wire.OutputResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := f.silent != ""
	short := time.AfterFunc(outputTime, func() {
		if peer := f.nodes.peers()[e.Worker.Incarnation]; silent || peer == nil || strings.HasPrefix(peer.Why, peers.ErrLost.Error()) {
			cancel(context.DeadlineExceeded)
		}
	})
	defer short.Stop()
	return f.askOutput(ctx, e, f.next)
}

// gone is the error of a follower that reads no more.
type gone struct{ error }

func (g *gone) Unwrap() error { return g.error }

// pass passes one event on.
func (f *following) pass(l view.Live) error {
	f.printed = true
	return f.each(l)
}

// unheard tells the follower once that a node is not heard. What its run came to shows in the store.
func (f *following) unheard(ctx context.Context, e *messages.Execution, err error) error {
	var left *gone
	var p *messages.Problem
	switch {
	case errors.As(err, &left), ctx.Err() != nil:
		return err
	}
	f.missed = true
	if f.silent != "" {
		return nil
	}
	if f.silent = err.Error(); errors.As(err, &p) {
		f.silent = p.Message
	}
	if p != nil && p.Code == messages.CodeNodeUnreachable {
		f.silent = f.nodes.Standing(e.Worker.Incarnation).Why
	}
	return f.notice("what it says on node %s is not seen for now: %s. Its outcome is waited for", nodeOf(e), f.silent)
}

// nodeOf is the name of the node that an execution stands on.
func nodeOf(e *messages.Execution) string {
	if label, _, _, ok := e.WorkerID.Split(); ok {
		return label
	}
	return e.Worker.Incarnation.String()
}
