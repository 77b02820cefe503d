package operate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// Why says what an execution waits for, or how it ended.
func (q *executions) Why(ctx context.Context, id messages.ExecutionID) (view.Explanation, error) {
	if x, away := q.whyAway(id); away {
		return x, nil
	}
	e, err := q.Get(store.Bare(ctx), id)
	if err != nil {
		return view.Explanation{}, err
	}
	x := view.Explanation{Execution: id, Status: e.Status}
	switch {
	case e.Status.Terminal():
		answer := q.cfg.Retries(ctx, &e)
		x.Reason, x.Message, x.Retry = "ended", "it has ended: "+e.Status.String(), &answer
		if by := q.endedBy(ctx, id); by != "" {
			x.Message += ", by " + by
		}
		if e.Status != messages.Completed {
			x.Message += "; " + answer.Message
			x.WhatToDo = adviceAfter(&e)
		}
		return x, nil
	case e.Status == messages.Requested && e.RunAt.After(q.cfg.Clock.Now()):
		x.Reason, x.Message, x.Until = "not_due", "it waits for its time", e.RunAt
		x.WhatToDo = "Nothing: it is placed at its time. Without `--at` a submission does not wait for one."
		if e.TakeBacks > 0 {
			x.WhatToDo = roster.BackedOff.Advice()
			x.Reason, x.Message = "backed_off", fmt.Sprintf("it was taken back %d times in a row, and waits before it is placed again", e.TakeBacks)
		} else if why := q.handedBack(ctx, &e); why != "" {
			x.Reason, x.Message = string(messages.CodeNoNodeServes), "the workers that it has come to cannot run it ("+why+"); it is placed again"
			x.WhatToDo = "Load its pack on a node (`troupe reload`), or cancel the execution. It ends after `executor.no_worker_deadline`."
		}
		if q.cfg.BackOffMax != nil {
			beyondBackOff(&x, &e, q.cfg.Clock.Now(), q.cfg.BackOffMax(&e))
		}
	case q.heldRemotely(&e):
		reason := remoteReasons[e.Status]
		x.Reason, x.Message = reason.String(), fmt.Sprintf("%s; its worker is %s, of another node", reason.Sentence(), e.WorkerID)
		x.WhatToDo = reason.Advice()
	case e.Status == messages.Requested && q.cfg.Pools.Has(e.Pool) && q.cfg.Serves != nil && !q.cfg.Serves(e.Action):
		x.Reason, x.Message = string(messages.CodeNoNodeServes), actors.NotServed+e.Action+"; it waits for a node of pool "+e.Pool+" that does"
		x.WhatToDo = "Load its pack on a node (`troupe reload`), or cancel the execution. Where no other node has the pool, it ends after `executor.no_worker_deadline`."
	default:
		q.askPool(ctx, &e, &x)
	}
	q.stateTried(ctx, &e, &x)
	answer := q.cfg.Retries(ctx, &e)
	x.Retry = &answer
	return x, nil
}

// handedBack is what the last worker said that an execution has come to, where its node does not serve the action; empty: it does, or has not
// said.
func (q *executions) handedBack(ctx context.Context, e *messages.Execution) string {
	if e.Attempt == 0 {
		return ""
	}
	events, err := q.cfg.Store.Events(ctx, e.ID)
	if err != nil || len(events) == 0 {
		return ""
	}
	_, why, found := strings.Cut(events[len(events)-1].Reason, actors.NotServed)
	if !found {
		return ""
	}
	return actors.NotServed + why
}

// backOffSlack is how much longer than the longest back-off one is not worth a word: estimates of the store's clock differ a little.
const backOffSlack = time.Minute

// beyondBackOff says of an execution that is to be placed again that its time is far beyond the longest back-off. Whoever set it had a clock
// that was ahead, or the store's has been set back since then.
func beyondBackOff(x *view.Explanation, e *messages.Execution, now time.Time, longest time.Duration) {
	left := e.RunAt.Sub(now)
	if e.RetryCount == 0 && e.Attempt == 0 || left <= longest+backOffSlack {
		return
	}
	x.Message += fmt.Sprintf("; that is %s from now, and its longest back-off is %s: the clock of the store was ahead when the time was set, or has been set back",
		left.Round(time.Second), longest)
	x.WhatToDo = "Let NTP set the clock of the store's machine, and compare `troupe_clock_ahead_seconds` of the nodes. To run it before its time, cancel it and submit it again."
}

// adviceAfter is what a person does about an execution that did not complete.
func adviceAfter(e *messages.Execution) string {
	if e.Error == nil {
		return ""
	}
	if advice := e.Error.Code.Advice(); advice != "" {
		return advice
	}
	return "The code is the action's own: the message says why, and `troupe logs ID` what it wrote."
}

// endedBy is who asked for the end of an execution that has ended; empty: nobody, or it is not known.
func (q *executions) endedBy(ctx context.Context, id messages.ExecutionID) string {
	events, err := q.cfg.Store.Events(ctx, id)
	if err != nil {
		return ""
	}
	by := ""
	for i := range events {
		if ev := &events[i]; ev.To.Terminal() && ev.From != ev.To || ev.To == messages.Cancelling {
			by = cmp.Or(ev.By, by)
		}
	}
	return by
}

// remoteReasons are the reasons of what stands on a worker, by its status: of another node's the store knows as much, and this
// node's router nothing.
var remoteReasons = map[messages.Status]roster.Reason{
	messages.Scheduled: roster.OnQueue, messages.Running: roster.IsRunning, messages.Cancelling: roster.IsRunning,
}

// heldRemotely reports whether the execution stands on a worker of another incarnation.
func (q *executions) heldRemotely(e *messages.Execution) bool {
	_, held := remoteReasons[e.Status]
	return held && e.Worker.Incarnation != q.cfg.Incarnation
}

// whyAway explains an execution that cannot be read, because the store is away or the node has not found it yet.
func (q *executions) whyAway(id messages.ExecutionID) (x view.Explanation, away bool) {
	if q.cfg.Self.Gate() == nil {
		return x, false
	}
	x = view.Explanation{Execution: id, Reason: roster.StoreAway.String(), Message: roster.StoreAway.Sentence(), WhatToDo: roster.StoreAway.Advice()}
	if list := q.cfg.Servers.Waits(); len(list) > 0 {
		x.Message += " (" + strings.Join(list, "; ") + ")"
	}
	return x, true
}

// stateTried says of an execution that its session's stored state has ended workers before it could begin.
func (q *executions) stateTried(ctx context.Context, e *messages.Execution, x *view.Explanation) {
	if e.Session == "" || e.Status.Terminal() || e.Attempt < 2 {
		return
	}
	trouble, err := q.cfg.Store.StateTrouble(ctx, e.Pool, e.Session)
	if err != nil || trouble.Tries == 0 {
		return
	}
	x.Message += fmt.Sprintf("; the session's stored state was given back %d of %d times without an answer, last to worker %s",
		trouble.Tries, store.StateTriesMax, trouble.TriedOn)
}

// askPool has the pool's router explain.
func (q *executions) askPool(ctx context.Context, e *messages.Execution, x *view.Explanation) {
	if !q.cfg.Pools.Has(e.Pool) {
		x.Reason, x.Message = "no_pool", fmt.Sprintf("this node has no pool %q: the pack that declares it is not loaded", e.Pool)
		x.WhatToDo = "Load the pack (`troupe reload`), or cancel the execution."
		return
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	answer, err := q.askRouter(limited, e)
	reason, turn := answer.Reason, answer.Turn
	if err != nil {
		x.Reason, x.Message = "router_silent", "the pool's router does not answer: "+err.Error()
		x.WhatToDo = fmt.Sprintf("`troupe tree troupe/pools/%s` shows its mailbox and last failure.", e.Pool)
		return
	}
	if reason == roster.NotLoaded { // the router holds the head of a session alone
		reason, x.Until, turn = q.behind(limited, e, turn)
	}
	if halted := q.cfg.Servers.Halted(e.Pool); reason == roster.NotLoaded && halted != roster.Ready {
		reason = halted
	}
	x.Reason, x.Message, x.WhatToDo = reason.String(), reason.Sentence(), reason.Advice()
	if answer.Detail != "" {
		x.Message += ": " + messages.ClipText(answer.Detail, FailureMax)
	}
	if turn.Line != "" && e.Status == messages.Requested {
		x.Line = &view.Line{Ahead: turn.Ahead, AtLeast: turn.AtLeast, Of: turn.Line}
	}
	if e.Status == messages.Scheduled {
		x.Until = e.ClaimBy
	}
}

// askRouter asks the pool's router, on whichever node it is, for the reason and, where it is this one's, what is behind it. What
// stands on a worker of this node needs no router.
func (q *executions) askRouter(ctx context.Context, e *messages.Execution) (supervisor.WhyAnswer, error) {
	answer, err := q.cfg.Pools.Why(ctx, e.Pool, supervisor.WhyWaiting{ID: e.ID, Priority: e.Priority, Seq: e.Seq})
	if err != nil || answer.Router.IsZero() {
		return answer, err
	}
	if reason, held := remoteReasons[e.Status]; held {
		return supervisor.WhyAnswer{Reason: reason}, nil
	}
	there, err := q.whyThere(ctx, answer.Router, e)
	if err != nil {
		return there, fmt.Errorf("it is on node %s: %w", q.nodes.NameOf(answer.Router), err)
	}
	return there, nil
}

// behind says what of its session an execution waits behind, and how many go first; NotLoaded: nothing, and it stands where the router says.
func (q *executions) behind(ctx context.Context, e *messages.Execution, turn roster.Turn) (roster.Reason, time.Time, roster.Turn) {
	if e.Session == "" || e.Affinity == messages.AffinityHint {
		return roster.NotLoaded, time.Time{}, turn
	}
	earlier, err := q.cfg.Store.List(ctx, store.Filter{
		Sessions: []string{e.Session}, Pools: []string{e.Pool}, Before: e.Seq, Limit: 1000,
		Statuses: []messages.Status{messages.Requested, messages.Scheduling, messages.Scheduled, messages.Running, messages.Cancelling},
	})
	if err != nil {
		return roster.NotLoaded, time.Time{}, roster.Turn{}
	}
	now := time.Now()
	why, until := roster.Behind(earlier.Executions, now)
	if why != roster.NotLoaded {
		turn = roster.TurnBehind(earlier.Executions, now, earlier.Next != 0)
	}
	return why, until, turn
}

// whyThere asks a pool's router on another node.
func (q *executions) whyThere(ctx context.Context, to messages.Incarnation, e *messages.Execution) (answer supervisor.WhyAnswer, err error) {
	body, err := q.nodes.network.Ask(ctx, to, messages.Placement{}, wire.WhyWaiting{Pool: e.Pool, Execution: e.ID, Priority: int32(e.Priority), Seq: e.Seq})
	if err != nil {
		return answer, err
	}
	result, ok := body.(wire.WhyWaitingResult)
	if !ok || result.Refused != "" {
		return answer, fmt.Errorf("it does not say: %s", result.Refused)
	}
	for _, reason := range roster.Reasons() {
		if reason.String() == result.Reason {
			turn := roster.Turn{Ahead: int(result.Ahead), AtLeast: result.AtLeast, Line: result.Line}
			return supervisor.WhyAnswer{Reason: reason, Turn: turn}, nil
		}
	}
	return answer, fmt.Errorf("its reason %q is not known here", result.Reason)
}
