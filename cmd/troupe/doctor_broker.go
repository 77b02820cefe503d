package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store/postgres"
)

// brokerFindings examines RabbitMQ. The report of Postgres has the workers whose queues may be there.
func brokerFindings(ctx context.Context, l *config.Loaded, known *postgres.Report) []finding {
	settings := brokerSettings(&l.Broker.RabbitMQ)
	files := l.Broker.RabbitMQ.TLS
	cfg := rabbitmq.Config{
		URL: l.Broker.RabbitMQ.URL, Name: "troupe doctor", WaitAtOpen: true,
		TLS: rabbitmq.TLS{CA: files.CAFile, Cert: files.CertFile, Key: files.KeyFile, ServerName: files.ServerName},
	}
	report, err := rabbitmq.Probe(ctx, cfg, settings.Prefix)
	if err != nil {
		return []finding{fail(err.Error(), "start it, or correct --broker").of("rabbitmq")}
	}
	findings := []finding{brokerServer(&report).of("rabbitmq"), brokerRights(&report, settings).of("broker rights"),
		queuePolicies(rabbitmq.Policies(ctx, cfg, samples(settings))).of("queue policies")}
	if report.Blocked != "" || len(report.Problems()) > 0 {
		return findings
	}
	opened, err := rabbitmq.Open(ctx, cfg)
	if err != nil {
		return append(findings, fail(err.Error(), "").of("shared queues"))
	}
	defer opened.Close()
	findings = append(findings, sharedQueues(ctx, opened, settings).of("shared queues"))
	findings = append(findings, sharedExchanges(ctx, opened, settings).of("shared exchanges"))
	findings = append(findings, dispatchBeside(ctx, opened, l, settings, known.Live).of("dispatch"))
	return append(findings, leftQueues(ctx, opened, settings, known.Gone).of("left queues"))
}

// brokerMin is the oldest RabbitMQ that works.
var brokerMin = [2]int{3, 10}

func brokerServer(r *rabbitmq.Report) finding {
	detail := fmt.Sprintf("%s %s, vhost %s as user %s", r.Product, r.Version, r.Vhost, r.User)
	var have [2]int
	_, err := fmt.Sscanf(r.Version, "%d.%d", &have[0], &have[1])
	switch {
	case r.Blocked != "":
		return fail(detail+": it takes no messages now: "+r.Blocked, "`rabbitmq-diagnostics alarms` on its machine: give it memory or disk")
	case r.Product != "RabbitMQ" || err != nil:
		return warn(detail, "it is not known to work: Troupe is tested with RabbitMQ")
	case slices.Compare(have[:], brokerMin[:]) < 0:
		return fail(detail+" is too old", fmt.Sprintf("RabbitMQ %d.%d is the oldest that works: upgrade it", brokerMin[0], brokerMin[1]))
	}
	return ok(detail)
}

func brokerRights(r *rabbitmq.Report, s broker.Settings) finding {
	if r.Blocked != "" {
		return warn("not tried while the server takes no messages", "")
	}
	var problems []string
	for _, p := range r.Problems() {
		problems = append(problems, p.Error())
	}
	if len(problems) > 0 {
		return fail(strings.Join(problems, "; "), "docs/queues.md has the three patterns")
	}
	return ok("the user may declare, publish and consume what begins with " + s.Prefix + ".")
}

// samples are names of queues as nodes declare them.
func samples(s broker.Settings) []string {
	i := messages.NewIncarnation()
	names := []string{s.WorkerQueueName("n/python/0", i), s.PoolQueueName("n", "go", i)}
	for _, q := range append(s.Shared().Queues, s.Requests().Queues...) {
		names = append(names, q.Name)
	}
	return names
}

// queuePolicies warns of policies that take messages out of Troupe's queues. What they drop is placed again by the store, late.
func queuePolicies(found []rabbitmq.Policy, err error) finding {
	if err != nil {
		return ok(fmt.Sprintf("not looked at: the management plugin cannot be asked (%v); `rabbitmqctl list_policies` shows them", err))
	}
	var cut []string
	for _, p := range found {
		cut = append(cut, fmt.Sprintf("%s (%s): %s", p.Name, p.Pattern, strings.Join(p.Cuts, ", ")))
	}
	if len(cut) > 0 {
		return warn("policies cut the queues: "+clipTo(strings.Join(cut, "; "), 500),
			"change their patterns so that they leave out what begins with the prefix: Troupe sets the limits of its queues itself")
	}
	return ok("none cuts the queues")
}

// sharedQueues declares again those of the shared queues that exist, which changes nothing, or shows that they were
// declared with other arguments: a node then uses them as they are.
func sharedQueues(ctx context.Context, b broker.Broker, s broker.Settings) finding {
	var said []string
	advice := ""
	for _, q := range s.Shared().Queues {
		info, err := b.Inspect(ctx, q.Name)
		if errors.Is(err, broker.ErrNoQueue) {
			said = append(said, q.Name+" is made at the first start")
			continue
		}
		if err == nil {
			err = b.Declare(ctx, broker.Topology{Queues: []broker.Queue{q}})
		}
		switch {
		case errors.Is(err, broker.ErrPrecondition):
			said = append(said, fmt.Sprintf("%s holds %d and is used as it is, though %v", q.Name, info.Ready, err))
			advice = broker.Migrate
			continue
		case errors.Is(err, broker.ErrBroken):
			return fail(q.Name+": the server ends the connection of whoever uses it", broker.Unbreak)
		case err != nil:
			return fail(err.Error(), "")
		}
		said = append(said, fmt.Sprintf("%s holds %d", q.Name, info.Ready))
		if q.Name == s.DeadLetterQueue() && info.Ready > lettersMany {
			advice = "dead letters wait and nobody handles them: is a node running? Then `troupe dead-letters stats`"
		}
	}
	if advice != "" {
		return warn(strings.Join(said, ", "), advice)
	}
	return ok(strings.Join(said, ", "))
}

// sharedExchanges looks for the exchanges that every node declares. One that is missing beside its queues was deleted.
func sharedExchanges(ctx context.Context, b broker.Broker, s broker.Settings) finding {
	var there, missing []string
	t := s.Shared()
	for _, e := range t.Exchanges {
		switch err := b.InspectExchange(ctx, e.Name); {
		case errors.Is(err, broker.ErrNoExchange):
			missing = append(missing, e.Name)
		case err != nil:
			return fail(err.Error(), "")
		default:
			there = append(there, e.Name)
		}
	}
	if len(missing) == 0 {
		return ok(strings.Join(there, ", ") + " are there")
	}
	for _, q := range t.Queues {
		if _, err := b.Inspect(ctx, q.Name); err == nil {
			return fail(strings.Join(missing, ", ")+" was deleted: notices wait in the store, or expired work leaves no dead letter",
				"a running node declares it again within seconds: is one running, and may its user declare it? Then bind again "+
					"what other programs had bound")
		}
	}
	return ok(strings.Join(missing, ", ") + " is made at the first start")
}

// leftQueues looks at the queues of workers whose nodes have ended. Without the server's management plugin a queue can be
// looked at only by its name, and the store knows the names.
func leftQueues(ctx context.Context, b broker.Broker, s broker.Settings, gone []postgres.WorkerRow) finding {
	names := queueNames(s, gone)
	left, held := []string(nil), 0
	for i, name := range names {
		info, err := b.Inspect(ctx, name)
		switch {
		case errors.Is(err, broker.ErrNoQueue):
			continue
		case err != nil && ctx.Err() != nil:
			return warn(fmt.Sprintf("only %d of %d names were looked at in time; %d queues are left of ended nodes", i, len(names), len(left)), "call it again")
		case err != nil:
			return fail(err.Error(), "")
		}
		left, held = append(left, fmt.Sprintf("%s (%d)", name, info.Ready)), held+info.Ready
	}
	if len(left) == 0 {
		return ok(fmt.Sprintf("none of the %d queues of nodes that ended within a day is left", len(names)))
	}
	ttl := s.WorkerTTL
	advice := fmt.Sprintf("nothing has to be done: the work in them is placed again by the store, and a queue goes by itself %s after its node's end: %s",
		2*ttl, clipTo(strings.Join(left, ", "), 2000))
	f := ok(fmt.Sprintf("%d queues of ended nodes are left, with %d messages", len(left), held))
	f.Advice = advice
	return f
}

// queueNames are the queues that the workers may have had: each its own, or one for their pool.
func queueNames(s broker.Settings, gone []postgres.WorkerRow) []string {
	var names []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for i := range gone {
		w := &gone[i]
		if node, pool, _, ok := w.ID.Split(); ok {
			add(s.PoolQueueName(node, pool, w.Key.Incarnation))
		}
		add(s.WorkerQueueName(w.ID, w.Key.Incarnation))
	}
	return names
}
