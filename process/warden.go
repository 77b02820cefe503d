package process

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/messages"
)

// wardenTime bounds how long a guardian whose node is gone tries to end its programs.
const wardenTime = time.Second

// ward is one program under a guardian.
type ward struct {
	seq    uint64
	id     procID
	mark   string        // its mark, NAME=value
	leaf   *leaf         // its cgroup; nil: none
	killed bool          // the guardian signalled it; guarded by warden.mu
	ready  chan struct{} // closed once the start was reported to the node, so that the exit is reported after it
}

// warden is the state of the guardian process. The thread that reads the socket also starts the programs. Their
// parent-death signal is bound to that thread, so it is locked and ends only with the process.
type warden struct {
	wire    blockingWire
	sendMu  sync.Mutex
	devNull int
	prefix  string // of every mark: incarnation and guardian
	ledger  *ledger
	group   group // of the incarnation; none: programs have no groups
	means   means
	until   atomic.Int64  // monotonic end of the lease in nanoseconds; 0: none
	renewed chan struct{} // signals a new end of the lease; one pending signal is enough
	// starting is held while a program starts, and while everything is ended. So the end of an old lease cannot end a
	// program that a new lease allowed.
	starting sync.Mutex

	mu    sync.Mutex // guards wards and is held over every start and every wait, so that no pid is signalled once reaped
	byPid map[int]*ward
	bySeq map[uint64]*ward
}

// runWarden is the guardian's main. It serves the node at the other end of the socket until that end is closed, ends
// everything, and returns the exit status.
func runWarden(socket int) int {
	runtime.LockOSThread()
	if _, err := unix.Getpeername(socket); err != nil {
		fmt.Fprintf(os.Stderr, "%s is started by a node and cannot run by itself: %v\n", guardianName, err)
		return 2
	}
	// Close all descriptors on exec, and not only the socket: a node may have inherited descriptors that its programs
	// must not get.
	if err := unix.CloseRange(uint(socket), math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		unix.CloseOnExec(socket)
	}
	w := &warden{
		wire: blockingWire{socket}, renewed: make(chan struct{}, 1),
		byPid: make(map[int]*ward), bySeq: make(map[uint64]*ward),
	}
	if err := w.prepare(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", guardianName, err)
		return 1
	}
	trim()
	w.serve()
	w.endEverything()
	w.group.endLeaves(leafName(w.prefix) + ".")
	_ = unix.Rmdir(w.group.path) // fails while another guardian has programs in it
	return 0
}

// prepare makes the process a subreaper that survives a terminal's signals, and starts the reaper.
func (w *warden) prepare() (err error) {
	if err := BecomeSubreaper(); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	if w.devNull, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	if w.ledger, err = openLedger("", messages.Incarnation{}); err != nil {
		return err
	}
	// The signals are caught and not ignored: every program would inherit an ignored signal. SIGPIPE comes from
	// standard error when the node that read it is dead. That is when the guardian is needed most.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	// Without a watcher, descendants would outlive the guardian's own death. So when the watcher dies, the guardian
	// ends as at the end of its node. It closes the connection to the node first: the programs that it then ends count
	// as lost with the guardian, and not as stopped.
	unwatched := make(chan os.Signal, 1)
	signal.Notify(unwatched, watcherDied)
	go func() {
		<-unwatched
		_ = unix.Shutdown(w.wire.fd, unix.SHUT_RDWR)
	}()
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		for range died {
			w.reapAll()
		}
	}()
	go w.watchLease()
	return nil
}

// serve handles the node's packets until the node is gone or sends something invalid.
func (w *warden) serve() {
	for {
		kind, body, fds, err := readPacket(w.wire)
		if err != nil {
			return
		}
		err = w.handle(kind, body, fds)
		closeAll(fds)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", guardianName, err)
			return
		}
	}
}

func (w *warden) handle(kind byte, body []byte, fds []int) error {
	d := decoder{b: body}
	switch kind {
	case packetConfigure:
		return w.configure(&d)
	case packetSpawn:
		return w.spawn(body, fds)
	case packetSignal:
		w.signal(d.number(), syscall.Signal(d.number())) //nolint:gosec // the node's own signal number
	case packetKill:
		w.kill(d.number())
	case packetRenew:
		w.renew(d.number())
	default:
		return fmt.Errorf("packet kind %d: %w", kind, errPacket)
	}
	return d.err
}

// configure reads the lineage prefix, the incarnation, the ledger's path, the first end of the lease, and the parent
// group with the features to use.
func (w *warden) configure(d *decoder) error {
	prefix, name, path, until := d.text(), d.text(), d.text(), d.number()
	in, use := group{d.text()}, meansOf(d.number())
	if d.err != nil {
		return d.err
	}
	incarnation, err := messages.ParseIncarnation(name)
	if err != nil {
		return err
	}
	w.prefix, w.group, w.means = prefix, in, use
	if w.ledger, err = openLedger(path, incarnation); err != nil {
		return err
	}
	if self, ok := identify(os.Getpid()); ok {
		if err := w.ledger.add(self); err != nil {
			return err
		}
	}
	if until > 0 {
		w.renew(until)
	}
	e := newPacket(packetPid)
	e.number(uint64(os.Getpid())) //nolint:gosec // a pid is positive
	return w.sendPacket(e)
}

func (w *warden) renew(until uint64) {
	w.until.Store(int64(until)) //nolint:gosec // nanoseconds of the monotonic clock
	select {
	case w.renewed <- struct{}{}:
	default:
	}
}

// expired reports whether there is a lease and it has ended.
func (w *warden) expired() bool {
	until := w.until.Load()
	return until > 0 && int64(monotonic()) >= until
}

// watchLease ends everything when the lease ends, then waits for the next lease.
func (w *warden) watchLease() {
	for range w.renewed {
		for !w.expired() {
			time.Sleep(time.Duration(w.until.Load()) - monotonic())
		}
		w.starting.Lock()
		if w.expired() {
			w.endEverything()
		}
		w.starting.Unlock()
	}
}

func (w *warden) send(packet []byte) error {
	w.sendMu.Lock()
	defer w.sendMu.Unlock()
	return w.wire.send(packet, nil)
}

func (w *warden) sendStarted(child *ward) error {
	e := newPacket(packetStarted)
	e.number(child.seq)
	e.number(uint64(child.id.pid)) //nolint:gosec // a pid is positive
	e.number(child.leaf.held())
	defer close(child.ready)
	return w.sendPacket(e)
}

func (w *warden) sendFailed(seq uint64, why refusal) error {
	e := newPacket(packetFailed)
	e.number(seq)
	e.text(why.text)
	e.flag(why.short)
	e.flag(why.never)
	return w.sendPacket(e)
}

func (w *warden) sendPacket(e *encoder) error {
	packet, err := e.packet()
	if err != nil {
		return err
	}
	return w.send(packet)
}
