package actors

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/webhook"
	"github.com/troupe-run/troupe/store"
)

// TellWebhooks says that outcomes with webhooks have been committed. The bridge also looks by itself.
type TellWebhooks struct{}

// WebhooksBell sends TellWebhooks to the bridge, one at a time however often it is rung.
type WebhooksBell struct{ rung atomic.Bool }

// Ring sends the hint, unless one is under way.
func (b *WebhooksBell) Ring(system *System, bridge *actor.PID) {
	if b.rung.CompareAndSwap(false, true) {
		system.Send(bridge, &TellWebhooks{})
	}
}

// WebhooksConfig is what the webhooks bridge needs.
type WebhooksConfig struct {
	System *System
	Store  store.Webhooks
	// Call makes one try and returns how it ended. It must end soon after its context.
	Call   func(context.Context, *store.WebhookCall) webhook.Answer
	Limits webhook.Limits
	Bell   *WebhooksBell // optional
	// Every is how often the bridge looks for what is due without any word of an outcome [1 s].
	Every time.Duration
	// Lease is how long a row is this node's that it has taken [20 s]; longer than a try and its report take.
	Lease  time.Duration
	Logger hclog.Logger
	// Count, where set, is told how each try ended (told, failed or given_up) and how long it took.
	Count func(result string, took time.Duration)
}

const (
	webhooksEvery  = time.Second
	webhooksLease  = 20 * time.Second
	webhooksGather = 5 * time.Millisecond // between the end of a call and the look for the next
	webhooksCall   = 10 * time.Second     // one call to the store
	webhooksTry    = 12 * time.Second     // one try; Call has a shorter bound of its own
	webhooksPage   = 100                  // destinations of one look
	webhooksExpire = 10 * time.Second     // between two looks for what is too old
	webhooksOld    = 500                  // given up by one such look
	webhooksRest   = time.Second          // after a call to the store that failed
	webhooksReport = 500                  // reports of one transaction
)

func (c WebhooksConfig) withDefaults() WebhooksConfig {
	if c.Every == 0 {
		c.Every = webhooksEvery
	}
	if c.Lease == 0 {
		c.Lease = webhooksLease
	}
	if c.Bell == nil {
		c.Bell = &WebhooksBell{}
	}
	if c.Count == nil {
		c.Count = func(string, time.Duration) {}
	}
	return c
}

// Webhooks is the bridge from outcomes to the addresses that want to be told by HTTP, at least once. All nodes' bridges share the work:
// a row that one has taken is not another's until its lease ends. The actor decides how many calls each destination gets; the
// calls are made beside it.
type Webhooks struct {
	cfg  WebhooksConfig
	cell *Cell
	real *RealWorld

	world        World
	timer, soon  Timer
	destinations webhook.Destinations
	after        string // where the look at the destinations goes on
	looking, due bool
	expired      time.Time // the last look for what is too old
	reports      []store.WebhookReport
	reporting    bool
	failed, lost Repeated
}

// NewWebhooks returns the child to spawn.
func NewWebhooks(cfg WebhooksConfig) Child {
	cfg = cfg.withDefaults()
	cell := &Cell{}
	return Child{Name: "webhooks", Kind: "bridge", Cell: cell, New: func() actor.Actor { return &Webhooks{cfg: cfg, cell: cell} }}
}

// Receive implements actor.Actor.
func (w *Webhooks) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		w.real = NewWorld(w.cfg.System, ctx.Self())
		w.begin(w.real)
	case *actor.Stopping:
		w.real.End()
		stopTimer(w.timer)
		stopTimer(w.soon)
	case *actor.Stopped:
	case *Resume:
		w.real.Resume(m)
	case *TellWebhooks:
		w.cfg.Bell.rung.Store(false)
		w.lookSoon(webhooksGather)
	default:
		w.cfg.System.Registry.Unknown(ctx)
	}
}

func (w *Webhooks) begin(world World) {
	w.world = world
	w.cfg.Bell.rung.Store(false)
	w.again()
	w.look()
}

// again has the store looked at without any word of an outcome.
func (w *Webhooks) again() {
	spread := 0.9 + 0.2*w.world.Random()
	w.timer = w.world.After(time.Duration(float64(w.cfg.Every)*spread), func() {
		w.again()
		w.look()
	})
}

// lookSoon has the store looked at after the wait, together with what comes until then.
func (w *Webhooks) lookSoon(wait time.Duration) {
	if w.soon == nil {
		w.soon = w.world.After(wait, func() {
			w.soon = nil
			w.look()
		})
	}
}

// look asks the store which destinations have something due, unless no call could begin.
func (w *Webhooks) look() {
	if w.looking {
		w.due = true
		return
	}
	if w.destinations.Calls() >= webhook.CallsMax {
		return // the end of a call looks again
	}
	w.looking, w.due = true, false
	after, now := w.after, w.world.Now()
	expire := now.Sub(w.expired) >= webhooksExpire
	if expire {
		w.expired = now
	}
	w.world.Beside(webhooksCall, func(ctx context.Context) func() {
		if expire {
			w.expire(ctx)
		}
		page, err := w.cfg.Store.DueDestinations(ctx, after, webhooksPage)
		return func() { w.seen(after, page, err) }
	})
}

// expire gives up what is too old and was not even tried of late, because its destination has so much else. It runs beside the actor.
func (w *Webhooks) expire(ctx context.Context) {
	n, err := w.cfg.Store.ExpireWebhooks(ctx, w.cfg.Limits.Age, "given up, as it was not told within "+w.cfg.Limits.Age.String(), webhooksOld)
	if err != nil {
		w.failed.Warn(w.cfg.Logger, "webhooks that are too old are not given up, trying again", "error", err)
		return
	}
	for range n {
		w.cfg.Count("given_up", 0)
	}
	if n > 0 {
		w.lost.Warn(w.cfg.Logger, "webhooks given up that are too old", "count", n)
	}
}

// seen takes rows of the destinations that may have calls now. Where no more calls can begin, the next look goes on there, so that the
// first names get no more than others.
func (w *Webhooks) seen(after string, page store.WebhookDestinations, err error) {
	if err != nil {
		w.rest(err)
		return
	}
	w.after = page.Next
	now := w.world.Now()
	var takes []store.WebhookTake
	for _, name := range page.Due {
		if w.destinations.Calls() >= webhook.CallsMax {
			w.after = after
			break
		}
		after = name
		if n := w.destinations.Take(name, webhook.DestinationMax, now); n > 0 {
			takes = append(takes, store.WebhookTake{Destination: name, Limit: n})
		}
	}
	if len(takes) == 0 {
		w.looked()
		return
	}
	w.world.Beside(webhooksCall, func(ctx context.Context) func() {
		calls, err := w.cfg.Store.TakeWebhooks(ctx, takes, w.cfg.Lease)
		return func() { w.taken(takes, calls, err) }
	})
}

// taken begins the calls.
func (w *Webhooks) taken(takes []store.WebhookTake, calls []store.WebhookCall, err error) {
	got := map[string]int{}
	for i := range calls {
		got[calls[i].Destination]++
	}
	for _, t := range takes {
		w.destinations.Unused(t.Destination, t.Limit-got[t.Destination])
	}
	if err != nil {
		w.rest(err)
		return
	}
	for i := range calls {
		w.call(&calls[i])
	}
	w.looked()
}

// looked ends a look. Where there are more destinations, the next look follows at once.
func (w *Webhooks) looked() {
	w.looking = false
	w.cell.Update(func(s *Status) { s.State, s.Why = "listening", "" })
	if w.due || w.after != "" {
		w.lookSoon(webhooksGather)
	}
}

// rest ends a look that failed.
func (w *Webhooks) rest(err error) {
	w.looking = false
	w.cell.Update(func(s *Status) { s.State, s.Why, s.LastFailure = "waiting", err.Error(), err.Error() })
	w.failed.Warn(w.cfg.Logger, "webhooks not called, calling them later", "error", err)
	w.lookSoon(webhooksRest)
}

// call makes one try beside the actor.
func (w *Webhooks) call(c *store.WebhookCall) {
	began := w.world.Now()
	w.world.Beside(webhooksTry, func(ctx context.Context) func() {
		answer := w.cfg.Call(ctx, c)
		return func() { w.ended(c, answer, w.world.Now().Sub(began)) }
	})
}

// ended judges a try and has it reported.
func (w *Webhooks) ended(c *store.WebhookCall, answer webhook.Answer, took time.Duration) {
	now := w.world.Now()
	w.destinations.Ended(c.Destination, webhook.Well(answer), took, now)
	v := webhook.Judge(answer, c.Tries+1, c.Age+took, now, w.world.Random(), w.cfg.Limits)
	w.reports = append(w.reports, store.WebhookReport{
		Execution: c.Execution, Claim: c.Claim, State: v.State, After: v.After, Tries: c.Tries + 1, Code: answer.Code, Error: v.Why,
	})
	switch v.State {
	case messages.WebhookTold:
		w.cfg.Count("told", took)
	case messages.WebhookGivenUp:
		w.cfg.Count("given_up", took)
		w.lost.Warn(w.cfg.Logger, "webhook given up", "execution", c.Execution, "destination", c.Destination, "tries", c.Tries+1, "reason", v.Why)
	default:
		w.cfg.Count("failed", took)
		w.cfg.Logger.Debug("webhook failed, calling it again", "execution", c.Execution, "destination", c.Destination, "tries", c.Tries+1, "after", v.After, "reason", v.Why)
	}
	w.report()
	w.lookSoon(webhooksGather)
}

// report writes what became of the tries. Those that end meanwhile share the next transaction. Of what cannot be written the lease
// ends, and it is called again.
func (w *Webhooks) report() {
	if w.reporting || len(w.reports) == 0 {
		return
	}
	n := min(len(w.reports), webhooksReport)
	part := w.reports[:n:n]
	w.reports, w.reporting = w.reports[n:], true
	w.world.Beside(webhooksCall, func(ctx context.Context) func() {
		err := w.cfg.Store.ReportWebhooks(ctx, part)
		return func() { w.reported(part, err) }
	})
}

func (w *Webhooks) reported(part []store.WebhookReport, err error) {
	w.reporting = false
	if err == nil {
		w.report()
		return
	}
	w.failed.Warn(w.cfg.Logger, "calls of webhooks not written down, writing them later", "error", err)
	if w.reports = append(part, w.reports...); len(w.reports) > 2*webhooksReport {
		w.reports = w.reports[:2*webhooksReport]
	}
	w.world.After(webhooksRest, w.report)
}
