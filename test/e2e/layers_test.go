package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/test/servers"
)

// venue is what the nodes of one test share: a Postgres database, and a prefix on a RabbitMQ.
type venue struct{ database, broker, prefix string }

// venues bounds how many exist at the same time: each node has up to ten connections to a Postgres that may allow only a hundred.
var venues = make(chan struct{}, 3)

func newVenue(t *testing.T) venue {
	t.Helper()
	venues <- struct{}{}
	t.Cleanup(func() { <-venues })
	v := venue{database: servers.Postgres(t)}
	v.broker, v.prefix = servers.RabbitMQ(t)
	return v
}

// options are the options of a node of the venue. Its go pool has one worker, so that one run keeps the pool busy.
func (v venue) options(name, config string, packs ...string) options {
	return options{
		config: config, packs: append(packs, "testdata/lines"), flags: []string{"--name", name, "--store", v.database, "--broker", v.broker},
		env: []string{
			"TROUPE_MESSAGE_QUEUE_RABBITMQ_PREFIX=" + v.prefix,
			"TROUPE_POOL_GO=1", "TROUPE_POOL_PYTHON=2", "TROUPE_WORKER_CANCEL_GRACE=0.2", "TROUPE_WORKER_TERM_GRACE=0.2",
		},
	}
}

func (v venue) start(t *testing.T, name, config string, packs ...string) *node {
	t.Helper()
	n := start(t, v.options(name, config, packs...))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of %s's log:\n%s", name, n.log.tail(25))
		}
	})
	return n
}

// Settings that disable one layer each. A long lease prevents membership, which would be faster, from acting.
const (
	// longLease is for nodes that must not be declared dead. Each node routes alone, so that it is known which node places.
	longLease  = "node: {lease: 120, peers_listen: off}\n"
	noRetries  = "retry: {enabled: false}\n"
	noLetters  = "dead_letter: {enabled: false}"
	noClaims   = "claim_sweep: false, claim_timeout: 2.9"
	noMonitor  = "timeout_check_interval: 3600"
	patientTTL = "worker_queue_ttl_ms: 300000"
	// allEvents is for tests that count starts and outcomes with once. All other tests use the default events, and so also the
	// statement that writes outcomes by default.
	allEvents = "store: {events: all}\n"
)

// settings is the part of a configuration that says which layers a node has.
func settings(executor, queues string, rest ...string) string {
	return "executor: {" + executor + "}\nmessage_queue: {rabbitmq: {" + queues + "}}\n" + strings.Join(rest, "")
}

// ahead keeps the only go worker of n busy for some seconds, after short runs, and then submits lines. They are placed on the
// worker's queue and delivered. Nobody claims them before the run ends, because their action is not idempotent.
func (n *node) ahead(t *testing.T, seconds float64, held object, lines ...object) (running string, placed []string) {
	t.Helper()
	var short []object
	for range 20 {
		short = append(short, object{"action_ref": "core.echo"})
	}
	status, batch := n.call(t, "POST", "/api/v1/executions/batch", object{"executions": short})
	require.Equal(t, 201, status, "%v", batch)
	for _, e := range batch.list("executions") {
		require.Equal(t, "completed", n.finish(t, e.text("id")).text("status"))
	}
	running = n.submit(t, "core.sleep", object{"seconds": seconds}, held).text("id")
	n.stands(t, running, "running")
	for _, more := range lines {
		id := n.submit(t, "lines.line", object{"n": len(placed)}, more).text("id")
		// The status scheduled is written before the message is sent. If the node stopped in between, there would be no message.
		await(t, "the broker has its message", func() bool { return n.get(t, "/api/v1/executions/"+id+"/why").text("reason") == "on_queue" })
		n.stands(t, id, "scheduled")
		placed = append(placed, id)
	}
	return running, placed
}

// stands waits until an execution has a status, and returns the execution.
func (n *node) stands(t *testing.T, id, status string) object {
	t.Helper()
	var e object
	await(t, id+" is "+status, func() bool {
		e = n.get(t, "/api/v1/executions/"+id)
		return e.text("status") == status
	})
	return e
}

// layer is a layer of defence against stuck executions, and how an operator recognizes it.
type layer struct {
	name, saw        string
	status, code, by string // the outcome that it writes; empty: it writes none
	event, reason    string // the event that it adds to the execution's history
	metric           string // increased by one for each execution, with its labels
	log              string
}

var (
	ttl = layer{
		"1 queue TTL and dead letters", "a message expired on its worker's queue before anybody claimed it",
		"failed", "queue_timeout", "dead_letter_handler", "end", "queue_timeout",
		`troupe_dead_letters_total{reason="expired",resolution="failed"}`, "Received dead letter for execution",
	}
	claimSweep = layer{
		name: "2 claim sweep", saw: "a placement was not claimed within `claim_timeout`: it is placed elsewhere",
		event: "take_back", reason: "claim_timeout", metric: `troupe_take_backs_total{reason="claim_timeout"}`,
	}
	startMonitor = layer{
		"2 timeout monitor", "nothing has started it within `scheduled_timeout` of its first placement",
		"failed", "start_timeout", "execution_timeout_monitor", "end", "start_timeout",
		`troupe_execution_timeouts_total{code="start_timeout"}`, "Execution has been scheduled for too long",
	}
	runMonitor = layer{
		"2 timeout monitor", "it runs long past its run deadline, and its worker has not stopped it",
		"timed_out", "timeout", "execution_timeout_monitor", "finish", "timeout",
		`troupe_execution_timeouts_total{code="timeout"}`, "",
	}
	retrying = layer{
		name: "3 retries", saw: "it ended with an error that may be repeated: `retried_as` names the next of its chain",
		event: "retry", metric: `troupe_retries_total{reason="exit_status"}`,
	}
	processWatch = layer{
		"liveness of the worker", "the worker's process ended in the middle of a run; idempotent work is placed again instead",
		"abandoned", "worker_lost", "worker", "finish", "worker_lost", "troupe_worker_restarts_total", "Replacing worker",
	}
	nodeWatch = layer{
		"liveness of the node", "the node's lease ended in the middle of a run; idempotent work is placed again instead",
		"abandoned", "worker_lost", "sweep", "finish", "worker_lost", `troupe_executions_total{code="worker_lost",status="abandoned"}`,
		"work of an ended node given back",
	}
	router = layer{
		"router", "the pool had no live worker on any node", "failed", "no_workers", "router", "end", "no_workers",
		`troupe_executions_total{code="no_workers",status="failed"}`, "",
	}
)

// TestTheTableOfLayers checks that the page for operators has the layers that these tests check.
func TestTheTableOfLayers(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	code := func(text string) string {
		if text == "" {
			return ""
		}
		return "`" + text + "`"
	}
	b.WriteString("| caught by | what it found | outcome | `failed_by` | event | metric | log |\n|---|---|---|---|---|---|---|\n")
	for _, l := range []layer{ttl, claimSweep, startMonitor, runMonitor, retrying, processWatch, nodeWatch, router} {
		outcome := code(strings.Trim(l.status+": "+l.code, ": "))
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", l.name, l.saw, outcome, code(l.by),
			code(strings.TrimSpace(l.event+" "+l.reason)), code(l.metric), l.log)
	}
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	require.NoError(t, err)
	require.Contains(t, string(page), b.String(), "docs/troubleshooting.md should hold this table")
}

// caught checks how the API, the command line, the metrics and the log of the layer's node show an execution that the layer
// caught. count is the metric's value.
func (n *node) caught(t *testing.T, l layer, id, text string, count int) object {
	t.Helper()
	e := n.get(t, "/api/v1/executions/"+id)
	if l.status != "" {
		e = n.finish(t, id)
		require.Equal(t, []string{l.status, l.code, l.by},
			[]string{e.text("status"), e.text("error", "code"), e.text("error", "failed_by")}, "%v", e)
		require.Contains(t, e.text("error", "message"), text)
		shown := n.prints(t, "get", id)
		require.Regexp(t, `(?m)^error +`+l.code+": .*"+text[:min(len(text), 20)], shown)
		require.Regexp(t, `(?m)^failed_by +`+l.by, shown)
	}
	require.Regexp(t, `(?m)^\S+ \S+ +\d+ +`+l.event+` .* `+l.reason, n.prints(t, "get", id, "--events"))
	n.counts(t, l.metric, count)
	require.Contains(t, n.log.String(), l.log)
	return e
}

// once checks that each execution has one outcome in its history, and at most one claim for each attempt.
func (n *node) once(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		outcomes, claims := 0, map[string]int{}
		events := n.get(t, "/api/v1/executions/"+id+"/events").list("events")
		for _, e := range events {
			switch e.text("kind") {
			case "finish", "end":
				outcomes++
			case "claim":
				claims[e.text("attempt")]++
			}
		}
		require.Equal(t, 1, outcomes, "outcomes of %s: %v", id, events)
		for attempt, count := range claims {
			require.Equal(t, 1, count, "starts of %s attempt %s: %v", id, attempt, events)
		}
	}
}

// happened returns the reasons of the events of a kind.
func (n *node) happened(t *testing.T, id, kind string) (reasons []string) {
	t.Helper()
	for _, e := range n.get(t, "/api/v1/executions/"+id+"/events").list("events") {
		if e.text("kind") == kind {
			reasons = append(reasons, e.text("reason"))
		}
	}
	return reasons
}

// counts waits until a metric with at least these labels has a value.
func (n *node) counts(t *testing.T, metric string, value int) {
	t.Helper()
	name, labels, _ := strings.Cut(strings.TrimSuffix(metric, "}"), "{")
	want := fmt.Sprint(" ", value)
	await(t, fmt.Sprintf("%s is %d", metric, value), func() bool {
		_, raw := n.raw(t, "GET", "/metrics", nil)
		for line := range strings.Lines(string(raw)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, name+"{") && strings.HasSuffix(line, want) && hasAll(line, strings.Split(labels, ",")) {
				return true
			}
		}
		return false
	})
}

func hasAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// letters waits for count dead letters, newest first.
func (n *node) letters(t *testing.T, count int) []object {
	t.Helper()
	var list []object
	await(t, fmt.Sprintf("there are %d dead letters", count), func() bool {
		list = n.get(t, "/api/v1/dead-letters").list("dead_letters")
		return len(list) >= count
	})
	require.Len(t, list, count)
	return list
}

// thaws continues a frozen node. Its run must complete.
func (n *node) thaws(t *testing.T, by *node, running string) {
	t.Helper()
	n.signal(syscall.SIGCONT)
	require.Equal(t, "completed", by.finish(t, running).text("status"))
}

const (
	expiredText = "Worker queue TTL expired: message expired in worker queue (worker unavailable)"
	monitorText = "Execution timeout: worker did not pick up task within timeout"
)

// The first layer, without the others. A node is frozen when it has a delivered message. The broker closes the node's connection,
// and the message expires. The dead-letter bridge of another node fails that attempt and no other.
func TestQueueTTLAlone(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	alone := settings(noClaims+", "+noMonitor, "worker_queue_ttl_ms: 3000", allEvents, longLease, noRetries)
	frozen := v.start(t, "frozen", alone)
	running, placed := frozen.ahead(t, 10, nil, object{"max_retries": 3})
	frozen.signal(syscall.SIGSTOP)
	witness := v.start(t, "witness", alone)

	e := witness.caught(t, ttl, placed[0], expiredText, 1)
	require.Empty(t, e.text("retried_as"), "the third layer is off")
	require.Equal(t, []string{"1", ""}, []string{e.text("attempt"), e.text("started_at")})
	letter := witness.letters(t, 1)[0]
	require.Equal(t, []string{e.text("id"), "1", "expired", "failed", "frozen/go/0"}, []string{
		letter.text("execution"), letter.text("attempt"), letter.text("reason"), letter.text("resolution"), letter.text("worker"),
	})
	witness.counts(t, `troupe_execution_timeouts_total{code="queue_timeout"}`, 1)
	require.Len(t, witness.happened(t, e.text("id"), "dead_letter"), 1)
	require.Regexp(t, `(?m)^1 .*expired +failed`, witness.prints(t, "dead-letters"))

	v.die(t, letter) // the same dead letter again
	require.Equal(t, "stale", witness.letters(t, 2)[0].text("resolution"))
	frozen.thaws(t, witness, running)
	require.Equal(t, e, witness.get(t, "/api/v1/executions/"+e.text("id")), "nothing changes an outcome")
	witness.once(t, running, placed[0])
	witness.handles(t, letter, witness.letters(t, 2)[0])
	require.NoError(t, frozen.stop())
	require.NoError(t, witness.stop())
}

// handles requeues one of two dead letters of an execution and discards the other, as an operator would.
func (n *node) handles(t *testing.T, wanted, unwanted object) {
	t.Helper()
	first, second, id := wanted.text("id"), unwanted.text("id"), wanted.text("execution")
	shown := n.prints(t, "dead-letters", "show", first)
	require.Regexp(t, "(?m)^"+first+" .*expired +failed +"+id+" +lines.line +frozen/go/0 +"+wanted.text("queue"), shown)
	require.Regexp(t, `(?m)^headers .*"expired"`, shown)
	require.Regexp(t, `(?m)^body .*"execution":"`+id+`"`, shown)
	stats := n.prints(t, "dead-letters", "stats")
	require.Regexp(t, `(?m) frozen/go/0 +lines.line +expired +1$`, stats)

	again := n.prints(t, "dead-letters", "requeue", first)
	e := n.finish(t, again)
	require.Equal(t, []string{"completed", id, "manual_retry"},
		[]string{e.text("status"), e.text("original_execution"), e.text("retry_reason")})
	require.Equal(t, again, n.prints(t, "dead-letters", "requeue", first), "an execution has one retry")
	require.Equal(t, "dead letter "+second+" is discarded", n.prints(t, "dead-letters", "discard", second))
	require.Regexp(t, "(?ms)^"+second+" .* discarded .*^"+first+" .* requeued ", n.prints(t, "dead-letters", "list"))
	require.Equal(t, stats, n.prints(t, "dead-letters", "stats"), "they are counted all the same")
}

// die sends the body of a dead letter to the dead-letter queue again.
func (v venue) die(t *testing.T, letter object) {
	t.Helper()
	client, err := rabbitmq.Open(t.Context(), rabbitmq.Config{URL: v.broker, WaitAtOpen: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	id, err := messages.ParseExecutionID(letter.text("execution"))
	require.NoError(t, err)
	attempt, err := strconv.Atoi(letter.text("attempt"))
	require.NoError(t, err)
	body, err := broker.Work{
		Worker:     messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "go"},
		Placements: []messages.Placement{{Execution: id, Attempt: messages.Attempt(attempt)}},
	}.Encode()
	require.NoError(t, err)
	queue := broker.Settings{Prefix: v.prefix}.DeadLetterQueue()
	confirms, err := client.Publish(t.Context(), []broker.Message{{RoutingKey: queue, Body: body}})
	require.NoError(t, err)
	require.Equal(t, []broker.Confirm{broker.Confirmed}, confirms)
}

// The first half of the second layer, without the others. The claim sweep of another node takes back an execution that a frozen
// node has not claimed, and the other node runs it. That uses no retry.
func TestTheClaimSweepAlone(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	alone := settings(noMonitor, noLetters, allEvents, longLease, noRetries)
	frozen := v.start(t, "frozen", settings("claim_timeout: 1, claim_sweep: false", noLetters, allEvents, longLease, noRetries))
	running, placed := frozen.ahead(t, 10, nil, nil)
	frozen.signal(syscall.SIGSTOP)
	witness := v.start(t, "witness", alone)

	e := witness.finish(t, placed[0])
	require.Equal(t, []string{"completed", "2", "0", "witness/go/0"}, []string{
		e.text("status"), e.text("attempt"), e.text("retry_count"), e.text("worker"),
	})
	witness.caught(t, claimSweep, placed[0], "", 1)
	require.Contains(t, witness.log.String(), "Dead letter handler disabled")
	frozen.thaws(t, witness, running)
	frozen.counts(t, `troupe_stale_writes_total{change="claim"}`, 1)
	require.Equal(t, e, witness.get(t, "/api/v1/executions/"+placed[0]))
	witness.once(t, running, placed[0])
	require.Empty(t, witness.letters(t, 0))
	require.NoError(t, frozen.stop())
	require.NoError(t, witness.stop())
}

// The second half of the second layer, without the claim sweep. The timeout monitor of another node fails an execution that a
// frozen node has not started, and ends a run of the frozen node after its timeout.
func TestTheTimeoutMonitorAlone(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	alone := settings(noClaims+", scheduled_timeout: 13, timeout_check_interval: 0.5", noLetters+", worker_queue_ttl_ms: 3000", allEvents, longLease, noRetries)
	frozen := v.start(t, "frozen", alone)
	running, placed := frozen.ahead(t, 60, object{"timeout_seconds": 8}, object{"max_retries": 3})
	frozen.signal(syscall.SIGSTOP)
	witness := v.start(t, "witness", alone)

	e := witness.caught(t, startMonitor, placed[0], monitorText, 1)
	require.Empty(t, e.text("retried_as"), "the third layer is off")
	late := witness.caught(t, runMonitor, running, "ran longer than its timeout of 8s", 1)
	frozen.signal(syscall.SIGCONT)
	frozen.counts(t, `troupe_stale_writes_total{change="finish"}`, 1)    // the outcome of its run
	frozen.counts(t, `troupe_stale_writes_total{change="take_back"}`, 1) // the execution that it would have run next
	require.Equal(t, e, witness.get(t, "/api/v1/executions/"+placed[0]))
	require.Equal(t, late, witness.get(t, "/api/v1/executions/"+running))
	witness.once(t, running, placed[0])
	require.NoError(t, frozen.stop())
	require.NoError(t, witness.stop())
}

// A node does not start if the monitor could act before the first layer.
func TestScheduledTimeoutMustExceedTheTTL(t *testing.T) {
	t.Parallel()
	message := refused(t, options{config: settings("scheduled_timeout: 309.9", patientTTL)})
	require.Contains(t, message, "executor.scheduled_timeout")
	require.Contains(t, message, "at least 10 s")
}

// failing is a pack with two shell workers, and an action that exits with a given status.
func failing(t *testing.T) string {
	return pack(t, "pack.yaml", "name: stage\nversion: 1.0.0\npools: [{name: two, runtime: shell, workers: 2}]\n",
		"actions/stumble.yaml", "name: stumble\nruntime: shell\npool: two\ncommand: [sh, -c, 'exit $TROUPE_PARAM_STATUS']\nretry: {never_on: [3]}\n")
}

// The third layer, without the others. Errors that a retry may avoid are retried as a chain. Each retry comes later than the
// previous one, on another worker. Other errors are not retried.
func TestRetriesAlone(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	n := v.start(t, "n1", settings(noClaims+", "+noMonitor, noLetters, allEvents, longLease, "retry: {base_backoff_secs: 0.5, max_backoff_secs: 1.5}\n"), failing(t))
	first := n.submit(t, "stage.stumble", object{"status": 75}, object{"max_retries": 3})
	final := n.runs(t, "stage.stumble", object{"status": 3}, object{"max_retries": 3})
	require.Equal(t, []string{"failed", "exit_status", ""}, []string{final.text("status"), final.text("error", "code"), final.text("retried_as")})

	id, ids := first.text("id"), []string{final.text("id")}
	var before object
	for count := range 4 {
		e := n.finish(t, id)
		require.Equal(t, []string{"failed", "exit_status", fmt.Sprint(count)}, []string{e.text("status"), e.text("error", "code"), e.text("retry_count")})
		if before != nil {
			require.Equal(t, []string{first.text("id"), "exit_status"}, []string{e.text("original_execution"), e.text("retry_reason")})
			require.NotEqual(t, before.text("worker"), e.text("worker"), "another worker is there")
			want := min(0.5*float64(int(1)<<(count-1)), 1.5)
			// The back-off begins with the decision, which is after the previous start and before the commit.
			require.GreaterOrEqual(t, moment(t, e, "run_at").Sub(moment(t, before, "started_at")).Seconds(), 0.8*want, "back-off of retry %d", count)
			require.LessOrEqual(t, moment(t, e, "run_at").Sub(moment(t, e, "requested_at")).Seconds(), min(1.2*want, 1.5), "back-off of retry %d", count)
			require.False(t, moment(t, e, "started_at").Before(moment(t, e, "run_at")))
		}
		before, id, ids = e, e.text("retried_as"), append(ids, e.text("id"))
	}
	require.Empty(t, id, "max_retries bounds the chain")
	n.caught(t, retrying, first.text("id"), "", 3)
	chain := n.prints(t, "get", first.text("id"), "--chain")
	for _, id := range ids[1:] {
		require.Contains(t, chain, id)
	}

	again := n.finish(t, strings.Fields(n.prints(t, "retry", before.text("id")))[0])
	require.Equal(t, []string{"manual_retry", first.text("id"), "4", ""}, []string{
		again.text("retry_reason"), again.text("original_execution"), again.text("retry_count"), again.text("retried_as"),
	})
	n.once(t, append(ids, again.text("id"))...)
	require.NoError(t, n.stop())
}

// moment reads a time of an execution.
func moment(t *testing.T, e object, field string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, e.text(field))
	require.NoError(t, err, "%s of %v", field, e)
	return at
}

// The first and the third layer together. The messages of a killed node expire and are dead-lettered. Their executions fail, and
// are retried if that is allowed. Its idempotent runs are repeated when its lease has ended.
func TestANodeDiesWithRunningAndQueuedWork(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	config := settings(noClaims, "worker_queue_ttl_ms: 3000", allEvents, "node: {lease: 6}\nretry: {base_backoff_secs: 0.2}\n")
	folder := pack(t, "pack.yaml", packYAML, "actions/wait.py", waitPy, "actions/wait.yaml", waitYAML)
	killed := v.start(t, "killed", config, folder)
	running, placed := killed.ahead(t, 10, nil, nil, object{"max_retries": 1})
	lost := killed.submit(t, "stage.wait", object{"seconds": 600}).text("id")
	killed.stands(t, lost, "running")
	workers := killed.poolSizes(t)
	killed.kill()
	other := v.start(t, "other", config, folder)

	require.Empty(t, other.caught(t, ttl, placed[0], expiredText, 2).text("retried_as"))
	retried := other.caught(t, ttl, placed[1], expiredText, 2).text("retried_as")
	e := other.finish(t, retried)
	require.Equal(t, []string{"completed", "queue_timeout", "other/go/0"}, []string{e.text("status"), e.text("retry_reason"), e.text("worker")})
	other.counts(t, `troupe_retries_total{reason="queue_timeout"}`, 1)
	other.counts(t, `troupe_retries_succeeded_total{reason="queue_timeout"}`, 1)

	e = other.finish(t, running)
	require.Equal(t, []string{"completed", "2", ""}, []string{e.text("status"), e.text("attempt"), e.text("crash_count")}, "the node's end is no crash of its own")
	other.caught(t, nodeWatch, lost, "its node ended while it ran", 1)
	other.once(t, append(placed, retried, running, lost)...)

	back := killed.again(t) // with the same name, while the other node still lives
	for pool, count := range workers {
		back.counts(t, fmt.Sprintf("troupe_worker_downtime_seconds_count{pool=%q}", pool), count)
	}
	back.works(t)
	for pool, count := range workers {
		back.counts(t, fmt.Sprintf("troupe_worker_downtime_seconds_count{pool=%q}", pool), count)
	}
	_, text := other.raw(t, "GET", "/metrics", nil)
	require.NotRegexp(t, `troupe_worker_downtime_seconds_count\{[^}]*\} [1-9]`, string(text), "none of its own workers was away")
	require.NoError(t, back.stop())
	require.NoError(t, other.stop())
}

// poolSizes is the number of this node's workers in each pool. All of them must be ready or busy.
func (n *node) poolSizes(t *testing.T) map[string]int {
	t.Helper()
	sizes := map[string]int{}
	for _, w := range n.get(t, "/api/v1/workers").list("workers") {
		require.Contains(t, []string{"ready", "busy"}, w.text("state"), "%v", w)
		sizes[w.text("pool")]++
	}
	require.NotEmpty(t, sizes)
	return sizes
}

// A message expires after its execution was taken back and placed on another node. It must not fail the new attempt, although the
// execution is scheduled again.
func TestALateDeadLetterChangesNothing(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	killed := v.start(t, "killed", settings("claim_timeout: 5, claim_sweep: false", "worker_queue_ttl_ms: 12000", allEvents, longLease))
	witness := v.start(t, "witness", settings("claim_timeout: 120", patientTTL, allEvents, longLease))
	killed.prints(t, "cordon", "worker", "killed/go/0")
	held, _ := witness.ahead(t, 300, nil)
	witness.prints(t, "cordon", "worker", "witness/go/0")
	killed.prints(t, "uncordon", "worker", "killed/go/0")
	_, placed := killed.ahead(t, 300, nil, nil)
	killed.kill() // its message stays in its queue until the TTL ends
	witness.prints(t, "uncordon", "worker", "witness/go/0")
	await(t, "the second attempt is placed", func() bool {
		e := witness.get(t, "/api/v1/executions/"+placed[0])
		return e.text("attempt") == "2" && e.text("status") == "scheduled"
	})
	require.Empty(t, witness.letters(t, 0), "the message has not expired yet")

	letter := witness.letters(t, 1)[0]
	require.Equal(t, []string{placed[0], "1", "expired", "stale"}, []string{
		letter.text("execution"), letter.text("attempt"), letter.text("reason"), letter.text("resolution"),
	})
	witness.counts(t, `troupe_dead_letters_total{reason="expired",resolution="stale"}`, 1)
	require.Equal(t, "scheduled", witness.get(t, "/api/v1/executions/"+placed[0]).text("status"))
	witness.prints(t, "cancel", held)
	e := witness.finish(t, placed[0])
	require.Equal(t, []string{"completed", "2"}, []string{e.text("status"), e.text("attempt")})
	witness.once(t, placed...)
	require.NoError(t, witness.stop())
}

const (
	waitPy   = "import time\n\n\ndef wait(params):\n    time.sleep(params['seconds'])\n"
	waitYAML = "name: wait\nruntime: python\nentrypoint: actions/wait.py:wait\n"
)

// A worker that ends during a run is noticed at once. Idempotent work is repeated elsewhere. Other work is abandoned, and retried
// as another execution if that was requested.
func TestAWorkerStopsMidRun(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	folder := pack(t, "pack.yaml", packYAML, "actions/wait.py", waitPy, "actions/wait.yaml", waitYAML)
	n := v.start(t, "n1", "retry: {base_backoff_secs: 0.2}\n"+allEvents+sharedConfig, folder)
	strike := func(id string) {
		worker := n.stands(t, id, "running").text("worker")
		pid, err := strconv.Atoi(n.get(t, "/api/v1/workers/"+worker).text("pid"))
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	again := n.submit(t, "demo.spin", object{"seconds": 5}).text("id")
	strike(again)
	e := n.finish(t, again)
	require.Equal(t, []string{"completed", "2", "1"}, []string{e.text("status"), e.text("attempt"), e.text("crash_count")})

	lost := n.submit(t, "stage.wait", object{"seconds": 30}, object{"max_retries": 1}).text("id")
	strike(lost)
	e = n.caught(t, processWatch, lost, "process ended", 2)
	require.Equal(t, "1", e.text("attempt"))
	strike(e.text("retried_as"))
	next := n.finish(t, e.text("retried_as"))
	require.Equal(t, []string{"abandoned", "worker_lost", "worker_lost", ""}, []string{
		next.text("status"), next.text("error", "code"), next.text("retry_reason"), next.text("retried_as"),
	})
	require.NotEqual(t, e.text("worker"), next.text("worker"))
	n.once(t, again, lost, next.text("id"))
	require.NoError(t, n.stop())
}

// If all workers of a pool are broken, an execution fails at once, and its retry runs when they are back.
func TestAllWorkersDown(t *testing.T) {
	t.Parallel()
	v, dir := newVenue(t), t.TempDir()
	broken, python := filepath.Join(dir, "broken"), filepath.Join(dir, "python")
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\n[ -e "+broken+" ] && exit 1\nexec python3 \"$@\"\n"), 0o755))
	n := v.start(t, "n1", "runtime: {python: "+python+"}\nretry: {base_backoff_secs: 5}\n"+allEvents+sharedConfig)
	require.Equal(t, "completed", n.runs(t, "demo.spin", object{"seconds": 0.01}).text("status"))
	require.NoError(t, os.WriteFile(broken, nil, 0o644))
	for slot := range 2 {
		n.prints(t, "worker", "kill", fmt.Sprintf("n1/python/%d", slot))
	}
	await(t, "the pool is broken", func() bool { return strings.Contains(n.prints(t, "pools"), "broken") })

	id := n.runs(t, "demo.spin", object{"seconds": 0.01}, object{"max_retries": 1}).text("id")
	require.NoError(t, os.Remove(broken)) // only now: the execution must fail while all workers are broken
	e := n.caught(t, router, id, "pool python is broken", 1)
	require.Contains(t, e.text("error", "message"), "pool python is broken: worker initialization failed")
	require.Equal(t, "0", e.text("attempt"), "it was never placed")
	next := n.finish(t, e.text("retried_as"))
	require.Equal(t, []string{"completed", "no_workers"}, []string{next.text("status"), next.text("retry_reason")})
	n.once(t, e.text("id"), next.text("id"))
	require.NoError(t, n.stop())
}

// holds checks a condition in the database.
func (v venue) holds(t *testing.T, condition string) {
	t.Helper()
	require.NoError(t, servers.Execute(v.database, "DO $$ BEGIN ASSERT "+condition+"; END $$"))
}

// A node that is told to stop is shown as stopping within a second and gets no new work. It gives back at once what has not
// started, completes its runs, and exits with status 0.
func TestAGracefulStopAmongNodes(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	leaving := v.start(t, "leaving", allEvents)
	running, placed := leaving.ahead(t, 15, nil, nil, nil)
	staying := v.start(t, "staying", allEvents)
	await(t, "its workers are shown", func() bool {
		return servers.Execute(v.database, "DO $$ BEGIN ASSERT EXISTS (SELECT FROM healthy_workers WHERE node = 'leaving'); END $$") == nil
	})
	leaving.signal(syscall.SIGTERM)
	told := time.Now()
	await(t, "it is known to be stopping", func() bool {
		return slices.ContainsFunc(staying.get(t, "/api/v1/nodes").list("nodes"), func(n object) bool {
			return n.text("name") == "leaving" && n.text("state") == "draining"
		})
	})
	require.Less(t, time.Since(told), time.Second)
	v.holds(t, `NOT EXISTS (SELECT FROM worker w JOIN node n USING (incarnation) WHERE n.name = 'leaving' AND w.active)
 AND NOT EXISTS (SELECT FROM healthy_workers WHERE node = 'leaving')`)

	for i := range 20 {
		placed = append(placed, staying.submit(t, "core.echo", object{"i": i}).text("id"))
	}
	for i, id := range placed {
		e := staying.finish(t, id)
		require.Equal(t, []string{"completed", "staying/go/0", "0"}, []string{e.text("status"), e.text("worker"), e.text("retry_count")}, "%v", e)
		if i < 2 {
			require.Equal(t, "2", e.text("attempt"))
			require.Len(t, staying.happened(t, id, "take_back"), 1)
		}
	}
	require.Equal(t, "running", staying.get(t, "/api/v1/executions/"+running).text("status"), "that was at once")
	require.NoError(t, leaving.ended(), "it ends with status 0")
	e := staying.get(t, "/api/v1/executions/"+running)
	require.Equal(t, []string{"completed", "leaving/go/0", "1"}, []string{e.text("status"), e.text("worker"), e.text("attempt")})
	require.Contains(t, leaving.log.String(), "Worker shutdown complete")
	require.True(t, slices.ContainsFunc(staying.get(t, "/api/v1/nodes").list("nodes"), func(n object) bool {
		return n.text("name") == "leaving" && n.text("state") == "dead"
	}))
	staying.once(t, append(placed, running)...)
	require.NoError(t, staying.stop())
}

// A pool has workers on one node only. The other nodes, of which one does not have the pool and one has it broken, must not fail
// executions that wait for these workers.
func TestANodeWithoutWorkersFailsNothing(t *testing.T) {
	t.Parallel()
	v, often := newVenue(t), "\nworker: {heartbeat_interval: 0.2, heartbeat_staleness_multiplier: 50}\n"
	folder := pack(t, "pack.yaml", packYAML+"pools: [{name: one, runtime: python, workers: 1}]\n", "actions/wait.py", waitPy,
		"actions/wait.yaml", waitYAML+"pool: one\n")
	owner := v.start(t, "owner", sharedConfig, folder)
	held := owner.submit(t, "stage.wait", object{"seconds": 600}).text("id")
	owner.stands(t, held, "running")
	waiting := owner.submit(t, "stage.wait", object{"seconds": 0}).text("id")

	without := v.start(t, "without", often)
	broken := v.start(t, "broken", often+"runtime: {python: /bin/false}\npool: {restart_intensity: 50, backoff_base: 0.05, backoff_max: 0.5}\n", folder)
	await(t, "the pool is broken there", func() bool { return strings.Contains(broken.prints(t, "pools"), "broken") })
	for _, n := range []*node{without, broken} {
		n.rounds(t, "homeless", 3)
	}
	require.Equal(t, "requested", owner.get(t, "/api/v1/executions/"+waiting).text("status"))
	owner.prints(t, "cancel", held)
	e := owner.finish(t, waiting)
	require.Equal(t, []string{"completed", "owner/stage.one/0"}, []string{e.text("status"), e.text("worker")}, "%v", e)
	for _, n := range []*node{without, broken, owner} {
		require.NoError(t, n.stop())
	}
}

// rounds waits until a monitor of the node has made count more rounds, of two messages each.
func (n *node) rounds(t *testing.T, monitor string, count int) {
	t.Helper()
	handled := func() int {
		number, err := strconv.ParseFloat(n.get(t, "/debug/actors/troupe/monitors/"+monitor).text("handled"), 64)
		require.NoError(t, err)
		return int(number)
	}
	from := handled()
	await(t, "rounds of "+monitor, func() bool { return handled() >= from+2*count })
}
