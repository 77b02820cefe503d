package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/cmd/troupe/config"
	"github.com/troupe-run/troupe/store/postgres"
)

const (
	// clockOff is how far this machine's clock may be from the store's before the doctor warns: run_at and what people
	// read in logs are by this one, leases and deadlines by the store's.
	clockOff = time.Second
	// nodeConnections is how many connections a node has to Postgres: its pool, one each for beats and hints, and two for
	// long answers to callers.
	nodeConnections = 12
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
	if l.Executor.ClaimSweepOff {
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
	findings := storeFindings(&report, err, l.Broker.RabbitMQ.URL != "")
	if l.Broker.RabbitMQ.URL == "" {
		return append(findings, dispatch(l).of("dispatch"))
	}
	asking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return append(findings, brokerFindings(asking, l, &report)...)
}

// storeFindings says what a report on Postgres means. Where there is none, that is the one finding. tells: there is a RabbitMQ on which
// outcomes can be told.
func storeFindings(r *postgres.Report, err error, tells bool) []finding {
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
		storeNodes(r).of("live nodes"), storePeers(r).of("peers"), storeNotices(r, tells).of("notices"), storeWebhooks(r).of("webhooks"),
	}
}

func storeServer(r *postgres.Report) finding {
	switch {
	case r.Unfit != nil:
		return fail(r.Unfit.Error(), "")
	case r.Standby:
		return fail(r.String()+" is a replica", "give the primary: no decision may be made on a replica's data")
	case len(r.Dropped) > 0:
		return fail(r.String()+" does not have the connection's "+clipTo(strings.Join(r.Dropped, ", "), 200),
			"a pooler stands before the server and drops them, so that statements may wait without end: give the server's own address, or have the pooler pass them on")
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
	case r.Refused != nil:
		return fail(r.Refused.Error(), "run the newer troupe, or restore a backup")
	case r.Schema > r.Newest:
		return fail(fmt.Sprintf("version %d, and this troupe knows up to %d", r.Schema, r.Newest), "run the newer troupe, or restore a backup")
	case r.Schema == r.Newest && len(r.Missing) == 0:
		if len(r.Later) > 0 {
			versions += "; a newer troupe has added " + clipTo(strings.Join(r.Later, ", "), 200) + ", with which this one works"
		}
		return ok(versions)
	case !r.MayCreate:
		return fail(versions+", and this user may not create tables",
			"run `troupe migrate` as a user who may, or grant this one CREATE (on the database where the schema is missing)")
	}
	if r.Schema == r.Newest {
		versions += ", without " + clipTo(strings.Join(r.Missing, ", "), 200)
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
			"keep both set with NTP: work goes by the store's clock and is not affected, but this one's is in logs and in what `--at` makes of a delay")
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

// noticesLate is the age of the oldest outcome that is not told from which the doctor warns.
const noticesLate = 10 * time.Second

// storeNotices says how far behind the telling of outcomes on the executions exchange is.
func storeNotices(r *postgres.Report, tells bool) finding {
	count := fmt.Sprint(r.Notices.Count)
	if r.Notices.More {
		count = "more than " + count
	}
	detail := fmt.Sprintf("%s outcomes are not told on the executions exchange yet, the oldest for %s", count, r.Notices.Age.Round(time.Second))
	switch {
	case r.Notices.Count == 0 && tells:
		return ok("every outcome is told")
	case r.Notices.Count == 0:
		return ok("none are told, without RabbitMQ")
	case !tells:
		return warn(detail, "they are of a time with RabbitMQ: a node with message_queue.rabbitmq.url tells them")
	case r.Notices.Age < noticesLate:
		return ok(detail)
	}
	return warn(detail, "is a node of this version running, and does it reach RabbitMQ? Its /readyz says why it cannot tell them")
}

// webhooksLate is since when the oldest webhook is due from which the doctor warns.
const webhooksLate = 5 * time.Minute

// storeWebhooks says what is not told by HTTP.
func storeWebhooks(r *postgres.Report) finding {
	w := r.Webhooks
	detail := fmt.Sprintf("%d are due, the oldest for %s; %d were given up", w.Due, w.Late.Round(time.Second), w.GivenUp)
	switch {
	case w.GivenUp > 0:
		return warn(detail, "`troupe webhooks` lists them with the reason, and `troupe webhooks retry ID` calls one again")
	case w.Late > webhooksLate:
		return warn(detail, "`troupe webhooks --state due` says which addresses do not answer")
	case w.Due > 0:
		return ok(detail)
	}
	return ok("nothing is due")
}

// storePeers says whether the live nodes can ask each other: those can that wrote down an address of one scope. Then it names those that
// prove nothing to each other.
func storePeers(r *postgres.Report) finding {
	groups := map[string][]string{} // names by scope
	var parts []string              // the groups, and each node without an address
	var older []string
	for i := range r.Nodes {
		switch n := &r.Nodes[i]; {
		case !n.LeaseUntil.After(r.Now):
		case n.PeerAddress == "":
			parts = append(parts, n.Name)
		default:
			groups[n.PeerScope] = append(groups[n.PeerScope], n.Name)
			if n.PeerProof == 0 {
				older = append(older, n.Name)
			}
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
	case len(parts) == 1 && len(older) > 0:
		slices.Sort(older)
		return warn("of an older release, which takes commands from whoever reaches its port for peers: "+clipTo(strings.Join(older, ", "), 200),
			"upgrade them; from then on every node of the cluster asks for a proof")
	case len(parts) == 1:
		return ok("no live node that the others cannot ask")
	case len(groups) == 0:
		return ok("no live node listens for the others (node.peers_listen)")
	}
	return warn("the live nodes are in parts that cannot ask each other whether they have lost the store too: "+clipTo(strings.Join(parts, " / "), 200),
		"give each of them in node.peers_listen an address that all others reach, with certificates; or off, to all")
}
