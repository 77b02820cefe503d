package process

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/troupe-run/troupe/messages"
	"golang.org/x/sys/unix"
)

// wardenTime bounds how long a guardian whose node is gone tries to end what it has.
const wardenTime = time.Second

// ward is one program under a guardian.
type ward struct {
	seq    uint64
	id     procID
	mark   string        // its lineage, NAME=value
	killed bool          // the guardian signalled it; guarded by warden.mu
	ready  chan struct{} // closed once the node was told of the start, so that the exit is told after it
}

// warden is the guardian's own side. The thread that reads the socket is the one that starts programs: their
// parent-death signal is bound to that thread, so it is locked and ends only with the process.
type warden struct {
	wire    blockingWire
	sendMu  sync.Mutex
	devNull int
	prefix  string // of every lineage: incarnation and guardian
	ledger  *ledger
	until   atomic.Int64  // monotonic end of the lease in nanoseconds; 0: none
	renewed chan struct{} // signals a new end of the lease; one pending signal is enough

	mu    sync.Mutex // guards wards and is held over every start and every wait, so that no pid is signalled once reaped
	byPid map[int]*ward
	bySeq map[uint64]*ward
}

// runWarden is the guardian's main: it serves the node at the other end of the socket until that end is closed, ends
// everything, and returns the exit status.
func runWarden(socket int) int {
	runtime.LockOSThread()
	if _, err := unix.Getpeername(socket); err != nil {
		fmt.Fprintf(os.Stderr, "%s is started by a node and cannot run by itself: %v\n", guardianName, err)
		return 2
	}
	// Not the socket alone: a node may have been started with descriptors that are no program's business.
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
	w.serve()
	w.endEverything()
	return 0
}

// prepare makes the process a subreaper that a terminal's signals do not end, and starts the reaper.
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
	// Caught rather than ignored: an ignored signal would stay ignored in every program.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
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

// serve carries out the node's packets until the node is gone or stops making sense.
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
		w.signal(d.number(), syscall.SIGKILL)
	case packetRenew:
		w.renew(d.number())
	default:
		return fmt.Errorf("packet kind %d: %w", kind, errPacket)
	}
	return d.err
}

// configure takes the lineage prefix, the incarnation, the ledger's path and the first end of the lease.
func (w *warden) configure(d *decoder) error {
	prefix, name, path, until := d.text(), d.text(), d.text(), d.number()
	if d.err != nil {
		return d.err
	}
	incarnation, err := messages.ParseIncarnation(name)
	if err != nil {
		return err
	}
	w.prefix = prefix
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
	return nil
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

// watchLease ends everything when the lease ends, and waits for the next one.
func (w *warden) watchLease() {
	for range w.renewed {
		for !w.expired() {
			time.Sleep(time.Duration(w.until.Load()) - monotonic())
		}
		w.endEverything()
	}
}

// spawn starts one program. Only a broken packet is an error here; what the program lacks is told to the node.
func (w *warden) spawn(body []byte, fds []int) error {
	req, err := decodeSpawn(body)
	if err != nil {
		return err
	}
	if w.expired() {
		return w.sendFailed(req.seq, "the node's lease has ended")
	}
	files, err := w.layout(&req, fds)
	if err != nil {
		return err
	}
	if req.cpu > 0 || req.files > 0 {
		return w.spawnLimited(&req, files)
	}
	child, err := w.fork(&req, req.path, req.argv, files)
	if err != nil {
		return w.sendFailed(req.seq, explain(err, &req))
	}
	return w.sendStarted(child)
}

// layout puts the descriptors where the program will find them.
func (w *warden) layout(req *spawnRequest, fds []int) ([]uintptr, error) {
	want := 2
	if req.stdin {
		want++
	}
	if req.framed {
		want += 2
	}
	if len(fds) != want {
		return nil, fmt.Errorf("start of %s came with %d descriptors, want %d: %w", req.path, len(fds), want, errPacket)
	}
	files := make([]uintptr, 0, descriptors+1)
	if !req.stdin {
		files = append(files, uintptr(w.devNull))
	}
	for _, fd := range fds {
		files = append(files, uintptr(fd))
	}
	return files, nil
}

// fork starts a program and registers it before anything can reap it.
func (w *warden) fork(req *spawnRequest, path string, argv []string, files []uintptr) (*ward, error) {
	mark := w.prefix + strconv.FormatUint(req.seq, 10) + "."
	w.mu.Lock()
	defer w.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Dir: req.dir, Env: append(req.env, mark), Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return nil, err
	}
	child := &ward{seq: req.seq, id: procID{pid: pid}, mark: mark, ready: make(chan struct{})}
	if stat, err := readStat(pid); err == nil {
		child.id = stat.id
	}
	w.byPid[pid], w.bySeq[req.seq] = child, child
	if err := w.ledger.add(child.id); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", guardianName, err)
	}
	offerToOOM(pid)
	return child, nil
}

// offerToOOM makes the kernel prefer a program to the node when memory runs out.
func offerToOOM(pid int) {
	fd, err := unix.Open(procPath(pid, "oom_score_adj"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, []byte("500"))
	_ = unix.Close(fd)
}

// spawnLimited starts a program by way of the shim, which reports an exec that failed through a pipe. The wait for it
// is beside the spawner thread, so that one slow start holds up no other.
func (w *warden) spawnLimited(req *spawnRequest, files []uintptr) error {
	var report [2]int
	if err := unix.Pipe2(report[:], unix.O_CLOEXEC); err != nil {
		return w.sendFailed(req.seq, err.Error())
	}
	argv := append([]string{
		shimName, strconv.Itoa(len(files)), strconv.FormatUint(req.cpu, 10), strconv.FormatUint(req.files, 10), req.path,
	}, req.argv...)
	child, err := w.fork(req, "/proc/self/exe", argv, append(files, uintptr(report[1])))
	_ = unix.Close(report[1])
	if err != nil {
		_ = unix.Close(report[0])
		return w.sendFailed(req.seq, explain(err, req))
	}
	go func() {
		defer unix.Close(report[0])
		var text [512]byte
		if n, _ := unix.Read(report[0], text[:]); n > 0 {
			_ = w.sendFailed(req.seq, string(text[:n]))
			close(child.ready)
			return
		}
		_ = w.sendStarted(child)
	}()
	return nil
}

// explain says what an exec lacked. The node has already looked the program and the directory up.
func explain(err error, req *spawnRequest) string {
	switch err {
	case syscall.ENOENT:
		return req.path + ": no such file, or the interpreter in its first line does not exist"
	case syscall.ENOEXEC:
		return req.path + ": not a program, and no interpreter in its first line"
	case syscall.E2BIG:
		return req.path + ": arguments and environment are too long: pass large input on stdin"
	}
	return req.path + ": " + err.Error()
}

// signal signals a program's process group; a program that has been reaped is left alone. SIGKILL goes to the program
// by name too, since it may have left its group; what it leaves behind is ended when it is reaped.
func (w *warden) signal(seq uint64, sig syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	child := w.bySeq[seq]
	if child == nil {
		return
	}
	child.killed = true
	_ = syscall.Kill(-child.id.pid, sig)
	if sig == syscall.SIGKILL {
		_ = syscall.Kill(child.id.pid, sig)
	}
}

// reapAll takes every child that has died.
func (w *warden) reapAll() {
	for w.reapOne() {
	}
}

// reapOne takes one dead child, if there is one. While it is still a zombie, and its pid cannot be anybody else's, the
// rest of its process group is ended.
func (w *warden) reapOne() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err == unix.EINTR {
		return true
	}
	pid := waitedPid(&info)
	if err != nil || pid <= 0 {
		return false
	}
	child := w.byPid[pid]
	if child != nil {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	var status syscall.WaitStatus
	var usage syscall.Rusage
	if _, err := syscall.Wait4(pid, &status, syscall.WNOHANG, &usage); err != nil || child == nil {
		return err == nil
	}
	delete(w.byPid, pid)
	delete(w.bySeq, child.seq)
	w.ledger.remove(child.id)
	go w.finish(child, exitReport{
		seq: child.seq, status: status, killed: child.killed,
		cpu: uint64(usage.Utime.Nano() + usage.Stime.Nano()), //nolint:gosec // never negative
	})
	return true
}

// waitedPid reads si_pid, which the unix package leaves unnamed: it follows three integers, aligned to a pointer.
func waitedPid(info *unix.Siginfo) int {
	word := unsafe.Sizeof(uintptr(0))
	offset := (3*unsafe.Sizeof(int32(0)) + word - 1) / word * word
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset)))
}

// finish ends what a dead program left behind and tells the node of its end.
func (w *warden) finish(child *ward, x exitReport) {
	<-child.ready
	endAll(func() []procID { return w.strays(child.mark) })
	packet, err := x.encode().packet()
	if err == nil {
		_ = w.send(packet)
	}
}

// strays returns the trees of processes that have come to the guardian because their parents died, and carry the mark.
func (w *warden) strays(mark string) []procID {
	var roots []int
	for _, pid := range childrenOf(os.Getpid()) {
		w.mu.Lock()
		known := w.byPid[pid] != nil
		w.mu.Unlock()
		if !known && environHas(pid, mark) {
			roots = append(roots, pid)
		}
	}
	return tree(roots...)
}

// endEverything ends all descendants, whatever session or group they moved to.
func (w *warden) endEverything() {
	w.mu.Lock()
	for _, child := range w.byPid {
		child.killed = true
	}
	w.mu.Unlock()
	self := os.Getpid()
	deadline := time.Now().Add(wardenTime)
	for {
		found := tree(childrenOf(self)...)
		for _, id := range found {
			_ = id.kill()
		}
		if len(found) == 0 || time.Now().After(deadline) {
			return
		}
		time.Sleep(endPause)
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
	defer close(child.ready)
	return w.sendPacket(e)
}

func (w *warden) sendFailed(seq uint64, text string) error {
	e := newPacket(packetFailed)
	e.number(seq)
	e.text(text)
	return w.sendPacket(e)
}

func (w *warden) sendPacket(e *encoder) error {
	packet, err := e.packet()
	if err != nil {
		return err
	}
	return w.send(packet)
}

// blockingWire is the guardian's end of the socket: plain system calls, because the thread that waits in them is the
// spawner and a poller would only add a hop.
type blockingWire struct{ fd int }

func (w blockingWire) receive(p, oob []byte) (n, oobn int, err error) {
	for {
		n, oobn, _, _, err = unix.Recvmsg(w.fd, p, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			return n, oobn, err
		}
	}
}

func (w blockingWire) send(p, oob []byte) error {
	for len(p) > 0 {
		n, err := unix.SendmsgN(w.fd, p, oob, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		p, oob = p[n:], nil
	}
	return nil
}
