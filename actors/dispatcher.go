package actors

import (
	"sync/atomic"
	"time"
)

const (
	// throughput is how many messages a mailbox handles before it lets other goroutines run, as with the library's own mailboxes.
	throughput = 300
	// restTime is how often goroutines without a mailbox are looked at: as many as were not needed since the last look end.
	restTime = 50 * time.Millisecond
	// restingMax bounds the goroutines that stay: at 8 KiB of stack each, 2 MiB.
	restingMax = 256
)

// dispatcher runs mailboxes on goroutines that it keeps for a while. A goroutine made for each burst of messages, as the
// library does, begins with a small stack and spends more time on growing it than a worker spends on its messages.
type dispatcher struct {
	work    chan work // nil: end
	resting atomic.Int32
	least   atomic.Int32 // the fewest that rested at once since the last look: so many were not needed
	looking atomic.Bool  // a look is to come
}

// work is what a goroutine runs: a mailbox, until nothing waits in it.
type work interface{ run() }

func newDispatcher() *dispatcher { return &dispatcher{work: make(chan work)} }

// schedule runs w soon, on a goroutine that rests or else on a new one.
func (d *dispatcher) schedule(w work) {
	select {
	case d.work <- w:
	default:
		go d.run(w)
	}
}

// run is one goroutine: it runs what it was made for, then what comes while it rests.
func (d *dispatcher) run(w work) {
	for w != nil {
		w.run()
		if d.resting.Add(1) > restingMax {
			d.resting.Add(-1)
			return
		}
		d.lookLater()
		w = <-d.work
		if n := d.resting.Add(-1); n < d.least.Load() {
			d.least.Store(n)
		}
	}
}

// lookLater sees to it that a look is to come. One timer for all of them costs less than one for each that rests.
func (d *dispatcher) lookLater() {
	if !d.looking.Load() && d.looking.CompareAndSwap(false, true) {
		time.AfterFunc(restTime, d.look)
	}
}

// look ends the goroutines that were not needed, as far as they still rest.
func (d *dispatcher) look() {
	d.looking.Store(false)
	for range d.least.Load() {
		select {
		case d.work <- nil:
		default:
		}
	}
	left := d.resting.Load()
	d.least.Store(left)
	if left > 0 {
		d.lookLater()
	}
}
