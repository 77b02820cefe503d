package link

import (
	"context"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor/part"
)

// Lost decides the fate of what ran on a worker whose actor failed, once its process is gone.
func (l *Link) Lost(slot messages.Slot, process int) {
	for pl, n := range l.running {
		if n == slot {
			delete(l.taken, pl)
			l.rescueLost(pl, process, slot, "worker actor failed")
		}
	}
}

// restartedWhy is why something is placed again that an earlier actor of the pool had.
const restartedWhy = "the pool's supervisor was started again"

// giveBackLeft gives back what an earlier actor of this pool had on workers that went with it, once their processes are gone.
// Whoever routes for the workers now hears of it as of any other end.
func (l *Link) giveBackLeft() {
	if len(l.left.Generations) == 0 {
		return
	}
	l.awaitExit(l.left.Processes, part.StoreTimeout/2, l.readLeft) // what ran there is placed again only once it is gone
}

// readLeft reads what stands on this node's workers.
func (l *Link) readLeft() {
	l.World.Beside(part.StoreTimeout, func(ctx context.Context) func() {
		live, err := l.Config.Store.Live(ctx, l.Config.Name)
		if err != nil {
			l.Config.Logger.Warn("what an earlier supervisor of the pool has left is not read, reading again", "error", err)
			return func() { l.World.After(l.RetryAfter(), l.giveBackLeft) }
		}
		return func() { l.leftRead(live) }
	})
}

// leftRead gives back what does not stand here. What a generation of this actor's has claimed, before the answer was read, is
// not lost.
func (l *Link) leftRead(live []messages.Execution) {
	for i := range live {
		e := &live[i]
		if e.Worker.Incarnation != l.Config.Incarnation || l.has(e.Placement()) ||
			e.Status.Started() && e.Generation > l.left.Generations[e.Worker.Slot] {
			continue
		}
		if change := l.WorkerConfig.RescueOf(e, "pool supervisor", restartedWhy); change != nil {
			item := actors.Item{Change: change, Worker: e.Worker}
			actors.TraceLost(l.WorkerConfig.Tracer, e, &item, l.World.Now)
			l.Record(item)
		}
	}
	l.left = Left{}
}

// has reports whether a placement has come here, whether it runs by now or not.
func (l *Link) has(pl messages.Placement) bool {
	_, runs := l.running[pl]
	_, held := l.held[pl]
	return runs || held
}

// rescueLost reads an execution whose worker is gone and has its rescue or its outcome written.
func (l *Link) rescueLost(pl messages.Placement, pid int, n messages.Slot, why string) {
	l.readLost(lostRead{placement: pl, slot: n, why: why}, []int{pid})
}

// rescueStray does the same for one whose claim was refused because it runs, which this actor knows nothing of: it was begun
// under the actor before this one, and is lost unless the process that has it is one of this actor's. Where processes of that
// actor may still end, it waits for them.
func (l *Link) rescueStray(pl messages.Placement, n messages.Slot) {
	l.readLost(lostRead{placement: pl, slot: n, why: restartedWhy, stray: true}, l.left.Processes)
}

// readLost reads what is lost once the processes are gone that may have it.
func (l *Link) readLost(m lostRead, pids []int) {
	l.awaitExit(pids, 3*part.StoreTimeout, func() {
		l.World.Beside(part.StoreTimeout, func(ctx context.Context) func() {
			m.execution, m.err = l.Config.Store.Get(ctx, m.placement.Execution)
			return func() { l.lostRead(&m) }
		})
	})
}

// lostRead brings an execution whose worker is gone.
type lostRead struct {
	placement messages.Placement
	execution messages.Execution
	err       error
	slot      messages.Slot
	why       string
	stray     bool // it may run
}

func (l *Link) lostRead(m *lostRead) {
	if m.err != nil {
		l.Config.Logger.Warn("lost execution not read, reading again", "execution", m.placement.Execution, "error", m.err)
		l.World.After(l.RetryAfter(), func() { l.readLost(*m, nil) })
		return
	}
	e := &m.execution
	if m.stray && (e.Worker.Incarnation != l.Config.Incarnation || l.workers.Has(e.Worker.Slot, e.Generation)) {
		return
	}
	if e.Attempt != m.placement.Attempt || e.Status.Terminal() { // somebody else has settled it
		delete(l.running, m.placement)
		delete(l.taken, m.placement)
		l.tellEnded(roster.Ended{Placement: m.placement, Unseen: true})
		return
	}
	item := actors.Item{Worker: l.Config.KeyOf(l.Config.Incarnation, m.slot), Fault: true}
	item.Change = l.WorkerConfig.RescueOf(e, "pool supervisor", m.why)
	if item.Change != nil {
		actors.TraceLost(l.WorkerConfig.Tracer, e, &item, l.World.Now)
		l.Record(item)
	}
}

// exitPoll is the time between two looks at a process that is to end.
const exitPoll = 20 * time.Millisecond

// awaitExit goes on once all of the processes are gone, and after the limit in any case.
func (l *Link) awaitExit(pids []int, limit time.Duration, then func()) {
	l.lookForExit(pids, l.World.Now().Add(limit), then)
}

func (l *Link) lookForExit(pids []int, until time.Time, then func()) {
	for len(pids) > 0 && (pids[0] <= 0 || syscall.Kill(pids[0], 0) != nil) {
		pids = pids[1:]
	}
	if len(pids) == 0 || !l.World.Now().Before(until) {
		then()
		return
	}
	l.World.After(exitPoll, func() { l.lookForExit(pids, until, then) })
}
