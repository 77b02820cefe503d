package chaos_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/api"
	"github.com/troupe-run/troupe/test/servers"
)

// fault is one way to take something away from a fleet. It returns when it has given back what it took; whether all is
// well again is asked by its caller.
type fault struct {
	name   string
	strike func(*full, *rand.Rand)
}

// faults are all of them. The reduced suite leaves out the last, which is two of the others at once.
var faults = []fault{
	{"node killed", killOne},
	{"node frozen beyond its lease", freezeOne},
	{"store connections terminated", terminateConnections},
	{"postgres killed", killPostgres},
	{"rabbitmq killed", killRabbit},
	{"memory alarm", raiseAlarm},
	{"queues deleted", deleteQueues},
	{"messages lost, twice and late", steal},
	{"dead letters late and twice", lateLetters},
	{"both servers killed", killBoth},
}

// moment is a pause of random length, from the seed.
func moment(random *rand.Rand, longest time.Duration) {
	time.Sleep(time.Duration(random.Int64N(int64(longest))))
}

// outage is how long a server stays away: longer than a lease one time in three.
func outage(random *rand.Rand) time.Duration {
	if random.IntN(3) == 0 {
		return 5 * time.Second
	}
	return time.Duration(random.IntN(1500)) * time.Millisecond
}

// killOne kills a node and starts it again, in its lease or after it.
func killOne(f *full, random *rand.Rand) {
	n := f.any(random)
	f.take(n)
	n.kill()
	time.Sleep(outage(random))
	n.start()
}

// freezeOne stops a node's process until the others have declared it dead, and lets it go on then.
func freezeOne(f *full, random *rand.Rand) {
	at := random.IntN(len(f.nodes))
	n, other := f.nodes[at], f.nodes[(at+1)%len(f.nodes)]
	before := other.incarnation(n.name).Incarnation
	f.take(n)
	n.signal(syscall.SIGSTOP)
	other.eventually(backTime, "the frozen node is declared dead", func(context.Context) bool {
		now := other.incarnation(n.name)
		return now.Incarnation == before && now.State == store.NodeDead
	})
	moment(random, time.Second)
	n.signal(syscall.SIGCONT)
	other.eventually(backTime, "the thawed node is back as another incarnation", func(context.Context) bool {
		now := other.incarnation(n.name)
		return now.Incarnation != before && now.State == store.NodeActive
	})
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

// queueAge is how old a queue should be before its server is killed. RabbitMQ 3.10 can leave a quorum queue unusable that was
// declared in the last moments before SIGKILL. The adapter finds and mends such queues (TestPrivateServer/broken of
// broker/rabbitmq); that whole nodes get over it has not been shown here yet. docs/chaos.md tells of it.
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

// raiseAlarm has the broker take no messages until a node has noticed, and a moment longer.
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

// workerQueues are the queues of all workers, those of ended incarnations with them.
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

// deleteQueues deletes half of the workers' queues under their consumers, with what is in them.
func deleteQueues(f *full, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(f.t.Context(), backTime)
	defer cancel()
	for _, queue := range f.workerQueues() {
		if random.IntN(2) == 0 {
			require.NoError(f.t, f.side.Delete(ctx, queue))
		}
	}
}

// steal consumes beside the workers for a while. What it gets is lost, or comes twice, or late.
func steal(f *full, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(f.t.Context(), 1500*time.Millisecond)
	defer cancel()
	var wait sync.WaitGroup
	for _, queue := range f.workerQueues() {
		random := rand.New(rand.NewPCG(random.Uint64(), 0))
		wait.Go(func() {
			f.stealFrom(ctx, queue, func(d broker.Delivery) {
				copies := []broker.Message{{RoutingKey: queue, ID: d.ID, Body: d.Body}}
				switch random.IntN(3) {
				case 1:
					copies = append(copies, copies[0])
				case 2:
					time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond) // late, by the seed
				default:
					copies = nil
				}
				_, _ = f.side.Publish(f.t.Context(), copies) // what cannot be sent again is lost
			})
		})
	}
	wait.Wait()
}

// stealFrom takes a share of a queue's messages for good, until ctx ends.
func (f *full) stealFrom(ctx context.Context, queue string, take func(broker.Delivery)) {
	consumer, err := f.side.Consume(ctx, queue, 4)
	if err != nil {
		return // the queue has just gone
	}
	defer func() { _ = consumer.Cancel() }()
	for {
		select {
		case d, open := <-consumer.Deliveries():
			if !open {
				return
			}
			_ = d.Ack() // gone, as far as the broker is concerned
			take(d)
		case <-ctx.Done():
			return
		}
	}
}

// lateLetters sends every dead letter so far again, twice, and makes up letters of all attempts before the current ones
// of what is on its way, and of those that run or have ended.
func lateLetters(f *full, random *rand.Rand) {
	const rounds = 20
	for range rounds {
		copies := f.letters.copies()
		random.Shuffle(len(copies), func(i, j int) { copies[i], copies[j] = copies[j], copies[i] })
		f.post(append(copies[:min(len(copies), 50)], f.oldLetters()...), 2)
		moment(random, 100*time.Millisecond)
	}
}

// oldLetters are dead letters that come too late, whatever happens until they are read.
func (f *full) oldLetters() []broker.Message {
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
		if e.Status < messages.Running { // its current attempt may yet expire
			last--
		}
		for attempt := messages.Attempt(1); attempt <= last; attempt++ {
			letters = append(letters, f.letter(worker, messages.Placement{Execution: e.ID, Attempt: attempt}))
		}
	}
	return letters
}
