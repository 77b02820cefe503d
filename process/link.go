package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sendTime bounds a write to the guardian. A guardian that does not read for so long is treated as dead.
const sendTime = 5 * time.Second

// These errors say whether a dead guardian got the request for a program. Only one that did not get it cannot have
// begun the program.
var (
	errNotAsked     = fmt.Errorf("%w: dead before it was asked", ErrGuardian)
	errGuardianDied = fmt.Errorf("%w: died; the program may have begun", ErrGuardian)
)

// link is the node's connection to one guardian process and the programs that it started there.
type link struct {
	owner  *Guardian
	cmd    *exec.Cmd    // the watcher, whose child the guardian is
	guard  atomic.Int64 // the guardian's pid; 0: not reported yet
	handle *os.Process  // handle of the guardian, valid when its pid is used again; nil: as above. Only serve's goroutine uses it
	conn   *net.UnixConn
	number uint64
	mark   string // of all processes under this guardian
	group  group  // the parent of the programs' groups; none: programs have no groups
	down   chan struct{}
	sendMu sync.Mutex

	mu       sync.Mutex
	seq      uint64
	programs map[uint64]*program // that run or are starting
	closing  bool
	ooms     oomWatch
}

// newLink starts a guardian process and the goroutine that reads its packets.
func newLink(g *Guardian, number uint64) (*link, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "guardian")
	defer theirs.Close()
	conn, err := connOf(pair[0])
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: g.cfg.Executable, Args: []string{watcherName}, Dir: "/",
		Env: []string{"GOMAXPROCS=1", "GOTRACEBACK=single"}, Stderr: os.Stderr,
		ExtraFiles:  []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("start %s: %w", g.cfg.Executable, err)
	}
	l := &link{
		group: g.group,
		owner: g, number: number, cmd: cmd, conn: conn, down: make(chan struct{}), programs: make(map[uint64]*program),
		mark: lineage(g.cfg.Incarnation.String(), strconv.FormatUint(number, 10)+"."),
	}
	l.ooms = oomWatch{before: oomKills(), last: oomKills()}
	e := newPacket(packetConfigure)
	e.text(l.mark)
	e.text(g.cfg.Incarnation.String())
	e.text(g.cfg.Ledger)
	e.number(g.until)
	e.text(g.group.path)
	e.number(g.means.bits())
	l.sendPacket(e)
	g.old.Add(1)
	go l.serve()
	return l, nil
}

// connOf wraps a socket for the poller. It closes the descriptor, because the connection has a copy.
func connOf(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "guardian")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("guardian socket: %w", err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("guardian socket is a %T", conn)
	}
	return unixConn, nil
}

// pid returns the guardian's pid; 0 until the guardian reports it. It reports it before any program's start.
func (l *link) pid() int { return int(l.guard.Load()) }

func (l *link) isDown() bool {
	select {
	case <-l.down:
		return true
	default:
		return false
	}
}

// serve reads the guardian's packets until the guardian is gone, then cleans up.
func (l *link) serve() {
	defer l.owner.old.Done()
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		l.sample()
	}()
	for {
		kind, body, fds, err := readPacket(pollingWire{l.conn})
		closeAll(fds)
		if err != nil || l.dispatch(kind, body) != nil {
			break
		}
	}
	l.windUp()
	<-sampled
}

func (l *link) dispatch(kind byte, body []byte) error {
	d := decoder{b: body}
	switch kind {
	case packetStarted:
		if p := l.find(d.number()); p != nil {
			p.started(int(d.number()), d.number()) //nolint:gosec // a pid
		}
	case packetFailed:
		if p := l.forget(d.number()); p != nil {
			p.failed(refusal{text: d.text(), short: d.flag(), never: d.flag()})
		}
	case packetPid:
		l.guard.Store(int64(d.number())) //nolint:gosec // a pid
		l.handle, _ = os.FindProcess(l.pid())
		l.owner.cfg.Logger.Info("guardian started", "pid", l.pid(), "guardian", l.number, "watcher", l.cmd.Process.Pid)
	case packetExited:
		x, err := decodeExit(body)
		if err != nil {
			return err
		}
		if p := l.forget(x.seq); p != nil {
			p.exited(x)
		}
	default:
		return errPacket
	}
	return d.err
}

// windUp reaps the watcher, which has reaped the guardian. It ends every process that is left and reports the end to
// the owner of every program.
func (l *link) windUp() {
	close(l.down)
	_ = l.conn.Close()
	l.mu.Lock()
	closing := l.closing
	rest := slices.Collect(maps.Values(l.programs))
	clear(l.programs)
	l.mu.Unlock()
	err := l.waitGuardian(closing)
	ended := l.sweep(rest)
	if !closing {
		l.owner.cfg.Logger.Warn("guardian died", "pid", l.pid(), "error", err, "programs", len(rest), "swept", ended)
	}
	for _, p := range rest {
		p.lost(closing)
	}
}

// waitGuardian waits for the end of the watcher, which ends after the guardian. A guardian that is closing, or that
// lost only its socket, gets the time it needs to end its programs. Then it is killed, and its watcher ends the
// processes that are left.
func (l *link) waitGuardian(closing bool) error {
	if l.handle != nil {
		defer func() { _ = l.handle.Release() }()
		guardian := time.AfterFunc(closeTime, func() { killChild(l.handle, l.cmd.Process.Pid) })
		defer guardian.Stop()
	}
	watcher := time.AfterFunc(closeTime+watcherTime+time.Second, func() { _ = l.cmd.Process.Kill() })
	defer watcher.Stop()
	err := l.cmd.Wait()
	if err == nil && !closing {
		return errors.New("closed its socket")
	}
	return err
}

// killChild kills a child of another process. It uses a handle and not /proc, because /proc may hide the child from
// this process (see HideFromPeers). A system without handles (Linux before 5.3, some sandboxes) gives only a pid, which
// another process may get once the parent has reaped the child. There it kills only if /proc says that the pid is a
// child of that parent.
func killChild(child *os.Process, parent int) {
	if errors.Is(child.WithHandle(func(uintptr) {}), os.ErrNoHandle) {
		if stat, err := readStat(child.Pid); err != nil || stat.ppid != parent {
			return
		}
	}
	_ = child.Kill()
}

// sweep ends the processes that a dead guardian left. Its programs die by their parent-death signal, but their
// descendants may live on. It finds those in the programs' cgroups, or by the mark. It reaps those whose parent is now
// this process.
func (l *link) sweep(rest []*program) int {
	reap := make(map[int]bool)
	for _, p := range rest {
		if pid := p.Pid(); pid > 0 {
			reap[pid] = true
		}
	}
	grouped := l.group.endLeaves(leafName(l.mark) + ".")
	for _, id := range grouped {
		reap[id.pid] = true
	}
	ended, _ := endAll(func() ([]procID, bool) {
		found := marked([]string{l.mark})
		for _, id := range found {
			reap[id.pid] = true
		}
		return found, true
	})
	reapAll(reap)
	return ended + len(grouped)
}

// reapAll reaps those of the processes that are children of this one, or become so when their parents die. All of them
// are dead or dying. It waits up to endTime until none is left. No other part of the node uses these pids.
func reapAll(pids map[int]bool) {
	for deadline := time.Now().Add(endTime); ; time.Sleep(endPause) {
		for pid := range pids {
			reaped, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
			if _, gone := readStat(pid); reaped == pid || err != nil && gone != nil {
				delete(pids, pid)
			}
		}
		if len(pids) == 0 || time.Now().After(deadline) {
			return
		}
	}
}

// close asks the guardian to end by closing the socket.
func (l *link) close() {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	_ = l.conn.CloseWrite()
}

func (l *link) find(seq uint64) *program {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.programs[seq]
}

func (l *link) forget(seq uint64) *program {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.programs[seq]
	delete(l.programs, seq)
	return p
}

// all lists the programs that run or are starting.
func (l *link) all() []*program {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.programs))
}

// enter registers a new program under a new number.
func (l *link) enter(p *program) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isDown() || l.closing {
		return errNotAsked
	}
	l.seq++
	p.seq = l.seq
	l.programs[p.seq] = p
	return nil
}

// start requests one program and waits until it runs, fails or ctx ends.
func (l *link) start(ctx context.Context, spec Spec, path string, sink func(Event)) (Process, error) {
	p, theirs, err := newProgram(l, spec, sink)
	if err != nil {
		return nil, err
	}
	defer closeAll(theirs)
	if err := l.enter(p); err != nil {
		p.release()
		return nil, err
	}
	if err := l.sendSpawn(p, path, theirs); err != nil {
		l.forget(p.seq)
		p.release()
		return nil, err
	}
	select {
	case err := <-p.begun:
		if err != nil {
			return nil, err
		}
		return p, nil
	case <-ctx.Done():
		p.abandon()
		return nil, ctx.Err()
	}
}

func (l *link) sendSpawn(p *program, path string, fds []int) error {
	req := spawnRequest{
		seq: p.seq, path: path, dir: p.spec.Dir, argv: p.spec.Argv, env: p.spec.Env,
		stdin: p.spec.Stdin != nil, framed: p.spec.Framed,
		cpu: seconds(p.spec.Limits.CPUTime), files: p.spec.Limits.OpenFiles,
		memory: uint64(max(0, p.spec.Limits.Memory)), processes: uint64(max(0, p.spec.Limits.Processes)),
		user: p.spec.User, umask: p.spec.Umask,
	}
	packet, err := req.packet()
	if err != nil {
		return err
	}
	switch err := l.send(packet, syscall.UnixRights(fds...)); {
	case lacks(err):
		return short(err)
	case err != nil:
		return errNotAsked // no whole packet was sent
	}
	return nil
}

// seconds rounds a CPU limit up to the kernel's whole seconds.
func seconds(d time.Duration) uint64 {
	return uint64(max(0, d+time.Second-1) / time.Second) //nolint:gosec // not negative
}

// sendPacket sends a packet without descriptors; a failure shows as the guardian's death.
func (l *link) sendPacket(e *encoder) {
	if packet, err := e.packet(); err == nil {
		_ = l.send(packet, nil)
	}
}

// terminate requests SIGTERM for one program's process group.
func (l *link) terminate(seq uint64) {
	e := newPacket(packetSignal)
	e.number(seq)
	e.number(uint64(syscall.SIGTERM))
	l.sendPacket(e)
}

// kill requests the end of one program and its descendants.
func (l *link) kill(seq uint64) {
	e := newPacket(packetKill)
	e.number(seq)
	l.sendPacket(e)
}

// send writes one packet. A packet that was written in part makes the stream useless, so send then gives up the link.
// If the kernel lacks room for the descriptors, nothing is written and the link goes on: the caller may repeat a start.
// Requests to end a program carry no descriptors.
func (l *link) send(packet, oob []byte) error {
	l.sendMu.Lock()
	defer l.sendMu.Unlock()
	err := l.conn.SetWriteDeadline(time.Now().Add(sendTime))
	if err == nil {
		err = pollingWire{l.conn}.send(packet, oob)
	}
	if err != nil && !(len(oob) > 0 && lacks(err)) {
		_ = l.conn.Close()
	}
	return err
}
