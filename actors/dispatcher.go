package actors

import (
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

const (
	// throughput is how many messages a mailbox handles before it lets other goroutines run, the library's own default.
	throughput = 300
	// restTime is how long a goroutine without a mailbox stays for the next one.
	restTime = 50 * time.Millisecond
	// restingMax bounds the goroutines that stay: at 8 KiB of stack each, 2 MiB.
	restingMax = 256
)

// dispatcher runs mailboxes on goroutines that it keeps for a while. A goroutine made for each burst of messages, as the
// library does, begins with a small stack and spends more time on growing it than a worker spends on its messages.
type dispatcher struct {
	work    chan func()
	resting atomic.Int32
}

func newDispatcher() actor.Dispatcher { return &dispatcher{work: make(chan func())} }

// Schedule runs f soon, on a goroutine that rests or else on a new one.
func (d *dispatcher) Schedule(f func()) {
	select {
	case d.work <- f:
	default:
		go d.run(f)
	}
}

// Throughput implements actor.Dispatcher.
func (d *dispatcher) Throughput() int { return throughput }

// run is one goroutine: it runs what it was made for, then what comes while it rests.
func (d *dispatcher) run(f func()) {
	f()
	over := time.NewTimer(restTime)
	defer over.Stop()
	for d.resting.Add(1) <= restingMax {
		over.Reset(restTime)
		select {
		case f := <-d.work:
			d.resting.Add(-1)
			f()
		case <-over.C:
			d.resting.Add(-1)
			return
		}
	}
	d.resting.Add(-1)
}
