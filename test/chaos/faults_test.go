package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/servers"
)

// fault is one fault of a fleet. inject injects it and returns when it has undone it. The caller then waits until the fleet is
// ready.
type fault struct {
	name   string
	inject func(*full, *rand.Rand)
}

// faults are all faults of the full mode. The reduced suite leaves out the last one, which combines two of the others.
var faults = []fault{
	{"node killed", killOne},
	freeze,
	{"store connections terminated", terminateConnections},
	{"postgres killed", killPostgres},
	{"rabbitmq killed", killRabbit},
	{"memory alarm", raiseAlarm},
	{"queues deleted", deleteQueues},
	theft,
	{"dead letters late and twice", lateDeadLetters},
	{"both servers killed", killBoth},
}

// directFaults are the faults that are possible without RabbitMQ.
var directFaults = []fault{
	{"node killed", killOne},
	freeze,
	{"store connections terminated", terminateConnections},
	{"postgres killed", killPostgres},
	{"node drained", drainOne},
	{"node stopped and started", restartOne},
}

// changeFaults are the ways in which a node ends, and the loss of the server that some pools use meanwhile.
var changeFaults = []fault{
	{"node killed", killOne},
	{"node drained", drainOne},
	{"rabbitmq killed", killRabbit},
	{"node stopped and started", restartOne},
	{"node killed", killOne},
}

var (
	freeze = fault{"node frozen beyond its lease", freezeOne}
	theft  = fault{"messages lost, twice and late", steal}
)

// wholeFaults has more freezes than other faults: a thawed node has only some milliseconds to report an old attempt, before it
// stops itself.
func wholeFaults() []fault { return append(slices.Clone(faults), freeze, freeze) }

// moment pauses for a random time from the seed.
func moment(random *rand.Rand, longest time.Duration) {
	time.Sleep(time.Duration(random.Int64N(int64(longest))))
}

// nearLease are durations of outages around the lease of 4 s, in thousandths of the lease. A node may survive them or not.
var nearLease = []int{500, 800, 950, 1000, 1500}

// outage is how long a server is away. One time in three it is about a lease.
func outage(random *rand.Rand) time.Duration {
	if random.IntN(3) == 0 {
		return 4 * time.Second * time.Duration(nearLease[random.IntN(len(nearLease))]) / 1000
	}
	return time.Duration(random.IntN(1500)) * time.Millisecond
}

// killOne kills a node and restarts it, before or after its lease has ended.
func killOne(f *full, random *rand.Rand) { f.killFor(f.any(random), random) }

// killFor kills a node, and restarts it after an outage.
func (f *full) killFor(n *node, random *rand.Rand) {
	f.take(n)
	n.kill()
	time.Sleep(outage(random))
	n.start()
}

// freezeOne freezes a node that runs idempotent work, until the other nodes have declared it dead and repeat that work. Then it
// thaws the node. The node's own runs of that work have ended meanwhile, so it has outcomes of old attempts to report.
func freezeOne(f *full, random *rand.Rand) {
	at := random.IntN(len(f.nodes))
	n, other := f.nodes[at], f.nodes[(at+1)%len(f.nodes)]
	before := other.incarnation(n.name).Incarnation
	name := fmt.Sprintf("freeze%d", len(f.taken))
	f.runRepeatable(n, name)
	f.take(n)
	n.signal(syscall.SIGSTOP)
	other.eventually(backTime, "the frozen node is declared dead", func(context.Context) bool {
		now := other.incarnation(n.name)
		return now.Incarnation == before && now.State == store.NodeDead
	})
	tryToAwait(func() bool { return other.runs(name, 2) > 0 })
	moment(random, 500*time.Millisecond)
	n.signal(syscall.SIGCONT)
	other.eventually(backTime, "the thawed node is back as another incarnation", func(context.Context) bool {
		now := other.incarnation(n.name)
		return now.Incarnation != before && now.State == store.NodeActive
	})
}

// runRepeatable submits idempotent work of 3 s, more than all nodes can run at once, and waits until the node runs some of it. No
// caller waits for its outcomes.
func (f *full) runRepeatable(n *node, name string) {
	f.t.Helper()
	through := &caller{node: n, patience: f.calls.patience}
	defer f.calls.adopt(through)
	first := int(messages.PriorityMax)
	for i := range 6 {
		for _, k := range repeatable() {
			w := &work{want: k.want, codes: k.codes}
			w.ActionRef, w.IdempotencyKey, w.Parameters = k.action, fmt.Sprintf("%s-%s-%d", k.action, name, i), parameters(3*time.Second)
			w.Priority = &first
			_, err := through.submit(f.t.Context(), mayExpire(w))
			require.NoError(f.t, err)
		}
	}
	tryToAwait(func() bool { return n.runs(name, 1) >= 3 })
}

// tryToAwait waits up to 10 s for a condition that makes the fault harder. It is not an error if the condition never holds: a program
// that loses work may never reach it.
func tryToAwait(holds func() bool) {
	for end := time.Now().Add(10 * time.Second); !holds() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
}

// runs counts the executions, submitted under the name, that the node runs as this attempt. It is 0 if the node cannot answer
// because of its store.
func (n *node) runs(name string, attempt messages.Attempt) (count int) {
	n.t.Helper()
	executions, err := n.list("running")
	if answer := (*client.Error)(nil); !errors.As(err, &answer) || answer.Code != string(messages.CodeStoreUnavailable) {
		require.NoError(n.t, err)
	}
	for _, e := range executions {
		if e.Attempt == attempt && nodeOf(string(e.Worker)) == n.name && strings.Contains(e.IdempotencyKey, "-"+name+"-") {
			count++
		}
	}
	return count
}

// repeatable are the kinds of idempotent work whose duration is a parameter.
func repeatable() (list []kind) {
	for _, k := range kinds {
		if strings.HasSuffix(k.action, "redo") {
			list = append(list, k)
		}
	}
	return list
}

// mayExpire allows the work also to fail because its message expires: on the queue of an ended node, or because a thief took it.
func mayExpire(w *work) *work {
	w.want, w.codes = append(slices.Clone(w.want), messages.Failed), append(slices.Clone(w.codes), messages.CodeQueueTimeout)
	return w
}

func terminateConnections(f *full, _ *rand.Rand) {
	require.NoError(f.t, servers.Execute(f.postgres,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"))
}

func killPostgres(f *full, random *rand.Rand) {
	require.NoError(f.t, f.ownPostgres.Kill())
	time.Sleep(outage(random))
	require.NoError(f.t, f.ownPostgres.Start())
}

// queueAge is the least age of a queue before its server is killed. RabbitMQ 3.10 can make a quorum queue unusable if it was
// declared shortly before SIGKILL. The adapter finds and repairs such queues (TestPrivateServer/broken of broker/rabbitmq). It is
// not tested yet that whole nodes survive this; see docs/chaos.md.
const queueAge = 1500 * time.Millisecond

func killRabbit(f *full, random *rand.Rand) {
	time.Sleep(queueAge)
	require.NoError(f.t, f.ownRabbit.Kill())
	moment(random, time.Second)
	require.NoError(f.t, f.ownRabbit.Start())
}

// killBoth kills both servers in either order and starts them in either order.
func killBoth(f *full, random *rand.Rand) {
	time.Sleep(queueAge)
	steps := []func() error{f.ownPostgres.Kill, f.ownRabbit.Kill, f.ownPostgres.Start, f.ownRabbit.Start}
	if random.IntN(2) == 0 {
		steps[0], steps[1] = steps[1], steps[0]
	}
	if random.IntN(2) == 0 {
		steps[2], steps[3] = steps[3], steps[2]
	}
	for _, step := range steps {
		require.NoError(f.t, step())
		moment(random, 300*time.Millisecond)
	}
}

// raiseAlarm raises a memory alarm, so that the broker accepts no messages. It lasts until a node has noticed, and up to a second
// longer.
func raiseAlarm(f *full, random *rand.Rand) {
	_, err := f.ownRabbit.Ctl("set_vm_memory_high_watermark", "0.000001")
	require.NoError(f.t, err)
	f.nodes[0].eventually(backTime, "a node says that the broker is blocked", func(ctx context.Context) bool {
		for _, n := range f.nodes {
			r, err := n.readiness(ctx)
			if err == nil && strings.Contains(strings.Join(r.WaitsFor, " "), "blocked") {
				return true
			}
		}
		return false
	})
	moment(random, time.Second)
	_, err = f.ownRabbit.Ctl("set_vm_memory_high_watermark", "0.4")
	require.NoError(f.t, err)
}

// workerQueues are the queues of all workers, also of ended incarnations.
func (f *full) workerQueues() []string {
	f.t.Helper()
	out, err := f.ownRabbit.Ctl("-q", "list_queues", "--no-table-headers", "name")
	require.NoError(f.t, err)
	var queues []string
	for _, name := range strings.Fields(out) {
		if strings.HasPrefix(name, f.settings.Prefix+".worker.") {
			queues = append(queues, name)
		}
	}
	return queues
}

// deleteQueues deletes half of the workers' queues with their messages, while workers consume from them.
func deleteQueues(f *full, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(f.t.Context(), backTime)
	defer cancel()
	for _, queue := range f.workerQueues() {
		if random.IntN(2) == 0 {
			require.NoError(f.t, f.deleteQueue(ctx, queue))
		}
	}
}

// deleteQueue deletes a queue. If another fault has just restarted the server, it waits for the server.
func (f *full) deleteQueue(ctx context.Context, queue string) error {
	for {
		err := f.side.Delete(ctx, queue)
		if !errors.Is(err, broker.ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// steal consumes beside the workers for some time. It drops a message, sends it twice or sends it late. A late message may come
// just before the newer attempt that replaced it.
func steal(f *full, random *rand.Rand) {
	held := newHeldMessages()
	f.thieve(random, missedTime, func(random *rand.Rand, queue string, d broker.Delivery) int {
		if old := held.before(d); len(old) > 0 {
			_, _ = f.side.Publish(f.t.Context(), old)                      // a failed publish is one more lost message
			time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond) // gives the worker time to read it
			return 1
		}
		switch random.IntN(4) {
		case 1:
			return 2
		case 2:
			time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
			return 1
		}
		held.keep(queue, d)
		return 0
	})
}

// missedTime is long enough for nodes to notice a lost message, after a claim timeout of 3 s, and to send its work again.
const missedTime = 6 * time.Second

// heldMessages has the messages that a thief has not passed on.
type heldMessages struct {
	mu   sync.Mutex
	held map[messages.ExecutionID]broker.Message
}

func newHeldMessages() *heldMessages {
	return &heldMessages{held: map[messages.ExecutionID]broker.Message{}}
}

// keep stores the message for each of its placements. Echoes are dropped.
func (l *heldMessages) keep(queue string, d broker.Delivery) {
	work, err := broker.DecodeWork(d.Body)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range placements(work) {
		l.held[p.Execution] = broker.Message{RoutingKey: queue, ID: d.ID, Body: d.Body}
	}
}

// before removes and returns the older messages of the placements in a delivery.
func (l *heldMessages) before(d broker.Delivery) (old []broker.Message) {
	work, err := broker.DecodeWork(d.Body)
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range placements(work) {
		if m, ok := l.held[p.Execution]; ok && p.Attempt > 1 {
			old = append(old, m)
			delete(l.held, p.Execution)
		}
	}
	return old
}

// thieve consumes beside the workers for some time. It passes each message on as often as take returns.
func (f *full) thieve(random *rand.Rand, length time.Duration, take func(random *rand.Rand, queue string, d broker.Delivery) int) {
	ctx, cancel := context.WithTimeout(f.t.Context(), length)
	defer cancel()
	var wait sync.WaitGroup
	for _, queue := range f.workerQueues() {
		random := rand.New(rand.NewPCG(random.Uint64(), 0))
		wait.Go(func() {
			consumer, err := f.side.Consume(ctx, queue, thiefWindow)
			if err != nil {
				return // the queue has just been deleted
			}
			stealFrom(ctx, consumer, func(d broker.Delivery) {
				copies := slices.Repeat([]broker.Message{{RoutingKey: queue, ID: d.ID, Body: d.Body}}, take(random, queue, d))
				_, _ = f.side.Publish(f.t.Context(), copies) // a failed publish is one more lost message
			})
		})
	}
	wait.Wait()
}

// thiefWindow is the prefetch of a thief.
const thiefWindow = 4

// stealFrom acks each delivery and gives it to take, until ctx ends.
func stealFrom(ctx context.Context, consumer broker.Consumer, take func(broker.Delivery)) {
	defer func() { _ = consumer.Cancel() }()
	for {
		select {
		case d, open := <-consumer.Deliveries():
			if !open {
				return
			}
			_ = d.Ack() // the broker deletes the message
			take(d)
		case <-ctx.Done():
			return
		}
	}
}

// lateDeadLetters sends all dead letters of the run again, twice. It also makes up dead letters for the earlier attempts of
// executions in progress, and for runs and ended executions. At the same time a thief loses messages until their work is sent
// again as newer attempts. It then sends the dead letters of the older attempts before it passes the newer message on.
func lateDeadLetters(f *full, random *rand.Rand) {
	const rounds = 20
	thief := rand.New(rand.NewPCG(random.Uint64(), 1))
	var wait sync.WaitGroup
	wait.Go(func() { f.thieve(thief, missedTime, f.sendOldFirst) })
	for range rounds {
		copies := f.letters.copies()
		random.Shuffle(len(copies), func(i, j int) { copies[i], copies[j] = copies[j], copies[i] })
		f.post(append(copies[:min(len(copies), 50)], f.oldDeadLetters()...), 2)
		moment(random, 100*time.Millisecond)
	}
	wait.Wait()
}

// sendOldFirst sends the dead letters of older attempts before the message. A message of a first attempt it drops two times in three.
func (f *full) sendOldFirst(random *rand.Rand, _ string, d broker.Delivery) int {
	work, err := broker.DecodeWork(d.Body)
	if err != nil {
		return 1 // an echo
	}
	var letters []broker.Message
	for i := range work {
		for _, p := range work[i].Placements {
			for p.Attempt--; p.Attempt > 0; p.Attempt-- {
				letters = append(letters, f.letter(work[i].Worker, p))
			}
		}
	}
	if len(letters) == 0 && random.IntN(3) > 0 {
		return 0
	}
	f.post(letters, 2)
	time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond) // gives a node time to read the dead letters
	return 1
}

// oldDeadLetters are dead letters of attempts that are over. They come too late in every case.
func (f *full) oldDeadLetters() []broker.Message {
	var list api.ExecutionList
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Second)
	defer cancel()
	if err := f.nodes[0].client.Load().Get(ctx, "/api/v1/executions?limit=100", &list); err != nil {
		return nil
	}
	var letters []broker.Message
	worker := messages.WorkerKey{Incarnation: f.nodes[0].incarnation(f.nodes[0].name).Incarnation, Pool: "chaos.gw"}
	for i := range list.Executions {
		e := &list.Executions[i]
		last := e.Attempt
		if e.Status < messages.Running { // its current attempt may still expire
			last--
		}
		for attempt := messages.Attempt(1); attempt <= last; attempt++ {
			letters = append(letters, f.letter(worker, messages.Placement{Execution: e.ID, Attempt: attempt}))
		}
	}
	return letters
}
