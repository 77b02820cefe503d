package node

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// Why implements api.Backend.
func (b backend) Why(ctx context.Context, id messages.ExecutionID) (api.Explanation, error) {
	if x, away := b.whyAway(id); away {
		return x, nil
	}
	e, err := b.Get(ctx, id)
	if err != nil {
		return api.Explanation{}, err
	}
	x := api.Explanation{Execution: id, Status: e.Status}
	switch {
	case e.Status.Terminal():
		answer := b.RetryAnswer(ctx, &e)
		x.Reason, x.Message, x.Retry = "ended", "it has ended: "+e.Status.String(), &answer
		if by := b.endedBy(ctx, id); by != "" {
			x.Message += ", by " + by
		}
		if e.Status != messages.Completed {
			x.Message += "; " + answer.Message
		}
		return x, nil
	case e.Status == messages.Requested && e.RunAt.After(b.clock.Now()):
		x.Reason, x.Message, x.Until = "not_due", "it waits for its time", e.RunAt
		if e.TakeBacks > 0 {
			x.Reason, x.Message = "backed_off", fmt.Sprintf("it was taken back %d times in a row and waits before it is placed again", e.TakeBacks)
		}
	case b.heldAbroad(&e):
		reason := abroad[e.Status]
		x.Reason, x.Message = reason.String(), fmt.Sprintf("%s; its worker is %s, of another node", reason.Sentence(), e.WorkerID)
	default:
		b.ask(ctx, &e, &x)
	}
	answer := b.RetryAnswer(ctx, &e)
	x.Retry = &answer
	return x, nil
}

// endedBy is who asked for the end of an execution that has ended; empty: nobody, or it is not known.
func (b backend) endedBy(ctx context.Context, id messages.ExecutionID) string {
	events, err := b.store.Events(ctx, id)
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

// abroad are the reasons of what stands on a worker, by its status: of another node's the store knows as much, and this
// node's router nothing.
var abroad = map[messages.Status]roster.Reason{
	messages.Scheduled: roster.OnQueue, messages.Running: roster.IsRunning, messages.Cancelling: roster.IsRunning,
}

// heldAbroad reports whether the execution stands on a worker of another incarnation.
func (b backend) heldAbroad(e *messages.Execution) bool {
	_, held := abroad[e.Status]
	return held && e.Worker.Incarnation != b.incarnation
}

// whyAway explains an execution that cannot be read, because the store is away or the node has not found it yet.
func (b backend) whyAway(id messages.ExecutionID) (x api.Explanation, away bool) {
	if b.gate() == nil {
		return x, false
	}
	x = api.Explanation{Execution: id, Reason: roster.StoreAway.String(), Message: roster.StoreAway.Sentence()}
	if list := b.servers.waits(); len(list) > 0 {
		x.Message += " (" + strings.Join(list, "; ") + ")"
	}
	return x, true
}

// ask has the pool's router explain.
func (b backend) ask(ctx context.Context, e *messages.Execution, x *api.Explanation) {
	pid := b.pools.pid(e.Pool)
	if pid == nil {
		x.Reason, x.Message = "no_pool", fmt.Sprintf("this node has no pool %q: the pack that declares it is not loaded", e.Pool)
		return
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	reason, detail, err := b.askRouter(limited, pid, e)
	if err != nil {
		x.Reason, x.Message = "router_silent", "the pool's router does not answer: "+err.Error()
		return
	}
	if reason == roster.NotLoaded { // the router holds the head of a session alone
		reason, x.Until = b.behind(limited, e)
	}
	if halted := b.servers.halted(); reason == roster.NotLoaded && halted != roster.Ready {
		reason = halted
	}
	x.Reason, x.Message = reason.String(), reason.Sentence()
	if detail != "" {
		x.Message += ": " + clip(detail, failureMax)
	}
	if e.Status == messages.Scheduled {
		x.Until = e.ClaimBy
	}
}

// askRouter asks the pool's router, on whichever node it is, for the reason and, where it is this one's, what is behind it. What
// stands on a worker of this node needs no router.
func (b backend) askRouter(ctx context.Context, pid *actor.PID, e *messages.Execution) (roster.Reason, string, error) {
	answer, err := actors.Ask[supervisor.WhyWaiting, supervisor.WhyAnswer](ctx, b.system, pid, supervisor.WhyWaiting{ID: e.ID})
	if err != nil || answer.Router.IsZero() {
		return answer.Reason, answer.Detail, err
	}
	if reason, held := abroad[e.Status]; held {
		return reason, "", nil
	}
	reason, err := b.whyThere(ctx, answer.Router, e.Pool, e.ID)
	if err != nil {
		return 0, "", fmt.Errorf("it is on node %s: %w", b.nameOf(answer.Router), err)
	}
	return reason, "", nil
}

// behind says what of its session an execution waits behind; NotLoaded: nothing.
func (b backend) behind(ctx context.Context, e *messages.Execution) (roster.Reason, time.Time) {
	if e.Session == "" || e.Affinity == messages.AffinityHint {
		return roster.NotLoaded, time.Time{}
	}
	earlier, err := b.store.List(ctx, store.Filter{
		Session: e.Session, Pool: e.Pool, Before: e.Seq, Limit: 1000,
		Statuses: []messages.Status{messages.Requested, messages.Scheduling, messages.Scheduled, messages.Running, messages.Cancelling},
	})
	if err != nil {
		return roster.NotLoaded, time.Time{}
	}
	return roster.Behind(earlier.Executions, time.Now())
}
