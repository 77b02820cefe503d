package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/store/postgres"
)

const (
	// clockOff is how far this machine's clock may be from the store's before the doctor warns: run_at and what people
	// read in logs are by this one, leases and deadlines by the store's.
	clockOff = time.Second
	// nodeConnections is how many connections a node has to Postgres: its pool, and one each for beats and hints.
	nodeConnections = 10
	// lettersMany is how many waiting dead letters mean that nobody handles them.
	lettersMany = 100
)

// timeouts judges the configured times against each other: what the loading of the configuration lets pass and an
// operator should still know. That scheduled_timeout exceeds the TTL is a condition of loading.
func timeouts(l *config.Loaded) []finding {
	ttl, letters := l.Broker.RabbitMQ.WorkerQueueTTL, ok("they are kept for "+l.Broker.RabbitMQ.DeadLetter.TTL.String())
	const key = "message_queue.rabbitmq.worker_queue_ttl_ms"
	queue := ok(fmt.Sprintf("%s; executor.scheduled_timeout is %s behind it", ttl, l.Executor.ScheduledTimeout-ttl))
	switch {
	case ttl < broker.WorkerTTLShort:
		queue = warn(ttl.String(), "below 2 minutes slow work dead-letters; set "+key+" to 2 to 5 times the typical run")
	case ttl < l.Executor.DefaultTimeout:
		queue = warn(fmt.Sprintf("%s, below executor.default_timeout of %s", ttl, l.Executor.DefaultTimeout),
			"work that is placed behind a run of that length dead-letters; set "+key+" to at least the default timeout, or that lower")
	}
	if !l.Broker.RabbitMQ.DeadLetter.Enabled {
		letters = warn("off: queues have no TTL, and only the sweep over claim_by takes work back",
			"set message_queue.rabbitmq.dead_letter.enabled to true")
	}
	findings := []finding{queue.of("queue ttl"), letters.of("dead letters")}
	if !l.Executor.ClaimSweep {
		f := warn("executor.claim_sweep is off: what no worker claims waits for the queue's TTL or the timeout monitor",
			"set it to true; it is switched off for tests of the other layers alone")
		findings = append(findings, f.of("claim sweep"))
	}
	return findings
}

// examineServers examines Postgres and RabbitMQ.
func examineServers(ctx context.Context, l *config.Loaded) []finding {
	looking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	report, err := postgres.Probe(looking, postgres.Config{URL: l.Store.URL, Name: "doctor"})
	findings := storeFindings(&report, err)
	asking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return append(findings, brokerFindings(asking, l, report.Gone)...)
}

// storeFindings says what a report on Postgres means. Where there is none, that is the one finding.
func storeFindings(r *postgres.Report, err error) []finding {
	if err != nil {
		advice := "start it, or correct --store"
		if strings.Contains(err.Error(), "unrecognized configuration parameter") {
			advice = "Postgres 15 is the oldest that works: upgrade it"
		}
		if strings.Contains(err.Error(), "unsupported startup parameter") {
			advice = "a pooler stands before the server: give the server's own address"
		}
		return []finding{fail(err.Error(), advice).of("postgres")}
	}
	return []finding{
		storeServer(r).of("postgres"), storeSchema(r).of("schema"), storeRights(r).of("store rights"),
		storeDurable(r).of("durability"), storeConnections(r).of("connections"), storeClock(r).of("store clock"),
		storeNodes(r).of("live nodes"), storePeers(r).of("peers"),
	}
}

func storeServer(r *postgres.Report) finding {
	switch {
	case r.Unfit != nil:
		return fail(r.Unfit.Error(), "")
	case r.Standby:
		return fail(r.String()+" is a replica", "give the primary: no decision may be made on a replica's data")
	case r.Pooled:
		return warn(r.String()+" is reached through a pooler",
			"give the server's own address: in transaction mode a pooler breaks LISTEN and the session locks that say who lives")
	}
	return ok(r.String())
}

func storeSchema(r *postgres.Report) finding {
	versions := fmt.Sprintf("version %d of %d", r.Schema, r.Newest)
	switch {
	case len(r.Forbidden) > 0:
		return warn("its version cannot be read", "see store rights")
	case r.Schema > r.Newest:
		return fail(fmt.Sprintf("version %d, and this troupe knows up to %d", r.Schema, r.Newest), "run the newer troupe, or restore a backup")
	case r.Schema == r.Newest:
		return ok(versions)
	case !r.MayCreate:
		return fail(versions+", and this user may not create tables",
			"run `troupe migrate` as a user who may, or grant this one CREATE (on the database where the schema is missing)")
	}
	return ok(versions + "; the next start of a node, or `troupe migrate`, brings it up")
}

func storeRights(r *postgres.Report) finding {
	if len(r.Forbidden) > 0 {
		return fail("the user may not use "+clipTo(strings.Join(r.Forbidden, ", "), 200),
			"GRANT USAGE ON SCHEMA public TO …; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO …; "+
				"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO …")
	}
	if r.Schema == 0 {
		return ok("the tables will be this user's own")
	}
	return ok("the user may read and write every table")
}

// storeDurable warns of settings with which a crash of the server loses what it has acknowledged.
func storeDurable(r *postgres.Report) finding {
	var weak []string
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if r.Settings[name] == "off" {
			weak = append(weak, name+" is off")
		}
	}
	if len(weak) > 0 {
		return warn(strings.Join(weak, ", ")+": a crash of the server may lose submissions and outcomes that were acknowledged",
			"switch on what is off (ALTER SYSTEM SET … = on), also for this user and database (\\drds in psql)")
	}
	return ok("fsync and full_page_writes are on, synchronous_commit is " + r.Settings["synchronous_commit"])
}

func storeConnections(r *postgres.Report) finding {
	detail := fmt.Sprintf("%d are free; a node takes up to %d", r.ConnectionsFree, nodeConnections)
	if r.ConnectionsFree < nodeConnections {
		return warn(detail, "raise max_connections, or end other clients")
	}
	return ok(detail)
}

func storeClock(r *postgres.Report) finding {
	word, off, unsure := "ahead of", r.Ahead, r.AheadError.Round(10*time.Microsecond)
	if off < 0 {
		word, off = "behind", -off
	}
	switch {
	case off-r.AheadError > clockOff:
		return warn(fmt.Sprintf("this machine's clock is %s %s the store's", off.Round(time.Millisecond), word),
			"keep both set with NTP: the store's clock decides about leases and deadlines, this one's is in logs and in run_at")
	case off <= r.AheadError:
		return ok("this machine's clock agrees with the store's, as far as can be seen in " + unsure.String())
	}
	return ok(fmt.Sprintf("this machine's clock is %s %s the store's", off.Round(10*time.Microsecond), word))
}

// storeNodes lists who lives; nodes of one name are told.
func storeNodes(r *postgres.Report) finding {
	names := map[string]int{}
	for i := range r.Nodes {
		if n := &r.Nodes[i]; n.LeaseUntil.After(r.Now) {
			names[n.Name]++
		}
	}
	var list, twins []string
	for name, count := range names {
		list = append(list, name)
		if count > 1 {
			twins = append(twins, fmt.Sprintf("%d are named %s", count, name))
		}
	}
	slices.Sort(list)
	slices.Sort(twins)
	switch {
	case len(twins) > 0:
		return warn(strings.Join(twins, "; "), "harmless, and hard to read: the workers' ids carry the incarnation; give each node a --name of its own")
	case len(list) == 0:
		return ok("none")
	}
	return ok(strings.Join(list, ", "))
}

// storePeers says whether the live nodes can ask each other: those can that wrote down an address of one scope.
func storePeers(r *postgres.Report) finding {
	groups := map[string][]string{} // names by scope
	var parts []string              // the groups, and each node without an address
	for i := range r.Nodes {
		switch n := &r.Nodes[i]; {
		case !n.LeaseUntil.After(r.Now):
		case n.PeerAddress == "":
			parts = append(parts, n.Name)
		default:
			groups[n.PeerScope] = append(groups[n.PeerScope], n.Name)
		}
	}
	for _, names := range groups {
		slices.Sort(names)
		parts = append(parts, strings.Join(names, ", "))
	}
	slices.Sort(parts)
	switch {
	case len(parts) == 0:
		return ok("no node lives")
	case len(parts) == 1:
		return ok("no live node that the others cannot ask")
	case len(groups) == 0:
		return ok("no live node listens for the others (node.peers_listen)")
	}
	return warn("the live nodes are in parts that cannot ask each other whether they have lost the store too: "+clipTo(strings.Join(parts, " / "), 200),
		"give each of them in node.peers_listen an address that all others reach, with certificates; or off, to all")
}

// brokerFindings examines RabbitMQ. gone are the workers whose queues may be left over.
func brokerFindings(ctx context.Context, l *config.Loaded, gone []postgres.GoneWorker) []finding {
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
	findings := []finding{brokerServer(&report).of("rabbitmq"), brokerRights(&report, settings).of("broker rights")}
	if report.Blocked != "" || len(report.Problems()) > 0 {
		return findings
	}
	opened, err := rabbitmq.Open(ctx, cfg)
	if err != nil {
		return append(findings, fail(err.Error(), "").of("shared queues"))
	}
	defer opened.Close()
	findings = append(findings, sharedQueues(ctx, opened, settings).of("shared queues"))
	return append(findings, leftQueues(ctx, opened, settings, gone).of("left queues"))
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

// leftQueues looks at the queues of workers whose nodes have ended. Without the server's management plugin a queue can be
// looked at only by its name, and the store knows the names.
func leftQueues(ctx context.Context, b broker.Broker, s broker.Settings, gone []postgres.GoneWorker) finding {
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
func queueNames(s broker.Settings, gone []postgres.GoneWorker) []string {
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
