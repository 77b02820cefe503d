package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawn starts one program. Only a broken packet is an error here. It sends any other error to the node.
func (w *warden) spawn(body []byte, fds []int) error {
	req, err := decodeSpawn(body)
	if err != nil {
		return err
	}
	w.starting.Lock()
	defer w.starting.Unlock()
	if w.expired() {
		return w.sendFailed(req.seq, refusal{text: "the node's lease has ended"})
	}
	if want := req.descriptors(); len(fds) < want { // the kernel has dropped descriptors for lack of room
		return w.sendFailed(req.seq, refusal{text: fmt.Sprintf("%d of its %d descriptors reached the guardian", len(fds), want), short: true})
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
		return w.sendFailed(req.seq, req.refused(err))
	}
	return w.sendStarted(child)
}

// refused returns the refusal for an error of the fork.
func (s *spawnRequest) refused(err error) refusal {
	if s.user != nil && errors.Is(err, syscall.EACCES) {
		return refusal{text: fmt.Sprintf("%s: uid %d may not run it, or not enter its working directory %s: give it the permission, "+
			"on the folders above too", s.path, s.user.UID, s.dir), never: true}
	}
	return refused(err, s.path)
}

// layout maps the descriptors to the numbers that the program expects.
func (w *warden) layout(req *spawnRequest, fds []int) ([]uintptr, error) {
	if want := req.descriptors(); len(fds) != want {
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
	made := w.makeLeaf(req, mark)
	w.mu.Lock()
	defer w.mu.Unlock()
	if req.umask != nil { // the umask is of the whole process, which creates nothing else meanwhile
		defer unix.Umask(unix.Umask(int(*req.umask)))
	}
	pid, used, err := made.fork(path, argv, req.user, syscall.ProcAttr{Dir: req.dir, Env: append(req.env, mark), Files: files})
	if err != nil {
		made.discard()
		return nil, err
	}
	if made != nil && used == nil { // the kernel refuses groups, and would refuse the next one too
		made.discard()
		w.means = means{}
	}
	used.close()
	child := &ward{seq: req.seq, id: procID{pid: pid}, mark: mark, leaf: used, ready: make(chan struct{})}
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

// makeLeaf makes the group of a program that is about to start; nil where there are none. The program also starts when
// its group cannot be made.
func (w *warden) makeLeaf(req *spawnRequest, mark string) *leaf {
	if !w.means.group {
		return nil
	}
	made, err := newLeaf(w.group, leafName(mark), w.means, req.memory, req.processes)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", guardianName, err)
		return nil
	}
	return made
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

// spawnLimited starts a program through the shim, which reports a failed exec through a pipe. Another goroutine waits
// for the report, so that one slow start does not delay the others.
func (w *warden) spawnLimited(req *spawnRequest, files []uintptr) error {
	var report [2]int
	if err := unix.Pipe2(report[:], unix.O_CLOEXEC); err != nil {
		return w.sendFailed(req.seq, refused(err, req.path))
	}
	argv := append([]string{
		shimName, strconv.Itoa(len(files)), strconv.FormatUint(req.cpu, 10), strconv.FormatUint(req.files, 10), req.path,
	}, req.argv...)
	child, err := w.fork(req, "/proc/self/exe", argv, append(files, uintptr(report[1])))
	_ = unix.Close(report[1])
	if err != nil {
		_ = unix.Close(report[0])
		return w.sendFailed(req.seq, req.refused(err))
	}
	go func() {
		defer unix.Close(report[0])
		var text [512]byte
		if n, _ := unix.Read(report[0], text[:]); n > 0 {
			_ = w.sendFailed(req.seq, readRefusal(text[:n]))
			close(child.ready)
			return
		}
		_ = w.sendStarted(child)
	}()
	return nil
}

// refused returns the refusal for a failed start.
func refused(err error, path string) refusal {
	return refusal{text: explain(err, path), short: lacks(err), never: isAny(err, unstartable)}
}

// The first byte of a shim's report says whether the node lacks a resource, or the same start fails again.
const (
	shimShort = 's'
	shimNever = 'n'
	shimOther = 'o'
)

// report encodes the refusal as a shim writes it.
func (r refusal) report() []byte {
	kind := byte(shimOther)
	switch {
	case r.short:
		kind = shimShort
	case r.never:
		kind = shimNever
	}
	return append([]byte{kind}, r.text...)
}

// readRefusal decodes a shim's report, which has at least one byte.
func readRefusal(report []byte) refusal {
	return refusal{text: string(report[1:]), short: report[0] == shimShort, never: report[0] == shimNever}
}

// explain says why an exec failed. The node has already looked up the program and the directory.
func explain(err error, path string) string {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return path + ": no such file, or the interpreter in its first line does not exist"
	case errors.Is(err, syscall.ENOEXEC):
		return path + ": not a program, and no interpreter in its first line"
	case errors.Is(err, syscall.E2BIG):
		return path + ": arguments and environment are too long: pass large input on stdin"
	}
	return path + ": " + err.Error()
}
