package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/messages"
)

// The node and its guardian exchange packets over a unix stream socket: 4 bytes of length, one byte of kind, the body.
// Descriptors are sent with the header.

const (
	packetHeader = 5
	packetMax    = 8 << 20 // argv and environment of one program; the kernel takes 2 MiB by default
	descriptors  = 5       // at most, in one packet: 0 1 2 and the frame pipes
)

// The kinds of packet.
const (
	packetConfigure byte = iota + 1 // node: incarnation, ledger, lease, group
	packetSpawn                     // node: start a program
	packetSignal                    // node: signal a program's process group
	packetKill                      // node: end a program and all its descendants
	packetRenew                     // node: the lease's new end
	packetStarted                   // guardian: pid, and what the kernel enforces by its group
	packetFailed                    // guardian: why a start failed, and whether the node lacks a resource
	packetExited                    // guardian: wait status
	packetPid                       // guardian: its own pid, once it is configured
)

// spawnRequest is the body of packetSpawn.
type spawnRequest struct {
	seq    uint64
	path   string
	dir    string
	argv   []string
	env    []string
	stdin  bool // the first descriptor is standard input; otherwise it is /dev/null
	framed bool // the last two descriptors are the frame pipes
	cpu    uint64
	files  uint64
	// The limits of its group, where it has one; 0: no limit.
	memory    uint64 // bytes
	processes uint64
	user      *messages.User // nil: the guardian's own; name and home are not sent
	umask     *uint32        // nil: the guardian's own
}

// descriptors returns how many descriptors come with the request.
func (s *spawnRequest) descriptors() int {
	n := 2
	if s.stdin {
		n++
	}
	if s.framed {
		n += 2
	}
	return n
}

// exitReport is the body of packetExited.
type exitReport struct {
	seq    uint64
	status syscall.WaitStatus
	cpu    uint64 // nanoseconds of user and system time
	killed bool   // the guardian sent it a signal
	group  uint64 // what the kernel did to its group, as leaf.verdict's bits
	left   string // see Exit.Left
}

// encoder builds a packet.
type encoder struct{ b []byte }

func newPacket(kind byte) *encoder { return &encoder{b: []byte{0, 0, 0, 0, kind}} }

func (e *encoder) number(n uint64) { e.b = binary.AppendUvarint(e.b, n) }

func (e *encoder) flag(f bool) {
	if f {
		e.number(1)
		return
	}
	e.number(0)
}

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) texts(list []string) {
	e.number(uint64(len(list)))
	for _, s := range list {
		e.text(s)
	}
}

// packet returns the finished packet, or an error when it is larger than a packet may be.
func (e *encoder) packet() ([]byte, error) {
	if len(e.b) > packetMax {
		return nil, fmt.Errorf("arguments and environment are %d bytes together, more than %d: pass large input on stdin", len(e.b), packetMax)
	}
	binary.BigEndian.PutUint32(e.b, uint32(len(e.b)-packetHeader)) //nolint:gosec // bounded above
	return e.b, nil
}

var errPacket = errors.New("malformed packet")

// decoder reads a packet's body. After the first error, every read returns a zero value.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.b, d.err = nil, errPacket
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) flag() bool { return d.number() == 1 }

func (d *decoder) text() string {
	n := d.number()
	if n > uint64(len(d.b)) {
		d.b, d.err = nil, errPacket
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) texts() []string {
	n := d.number()
	if n > uint64(len(d.b)) {
		d.b, d.err = nil, errPacket
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.text())
	}
	return list
}

func (s *spawnRequest) packet() ([]byte, error) {
	e := newPacket(packetSpawn)
	e.number(s.seq)
	e.text(s.path)
	e.text(s.dir)
	e.texts(s.argv)
	e.texts(s.env)
	e.flag(s.stdin)
	e.flag(s.framed)
	e.number(s.cpu)
	e.number(s.files)
	e.number(s.memory)
	e.number(s.processes)
	e.user(s.user)
	e.flag(s.umask != nil)
	if s.umask != nil {
		e.number(uint64(*s.umask))
	}
	return e.packet()
}

func (e *encoder) user(u *messages.User) {
	e.flag(u != nil)
	if u == nil {
		return
	}
	e.number(uint64(u.UID))
	e.number(uint64(u.GID))
	e.number(uint64(len(u.Groups)))
	for _, gid := range u.Groups {
		e.number(uint64(gid))
	}
}

// id reads a number of 32 bits.
func (d *decoder) id() uint32 {
	n := d.number()
	if n > math.MaxUint32 {
		d.b, d.err = nil, errPacket
		return 0
	}
	return uint32(n)
}

func (d *decoder) user() *messages.User {
	if !d.flag() {
		return nil
	}
	u := &messages.User{UID: d.id(), GID: d.id()}
	n := d.number()
	if n > userGroupsMax {
		d.b, d.err = nil, errPacket
		return u
	}
	for range n {
		u.Groups = append(u.Groups, d.id())
	}
	return u
}

func decodeSpawn(body []byte) (spawnRequest, error) {
	d := decoder{b: body}
	s := spawnRequest{
		seq: d.number(), path: d.text(), dir: d.text(), argv: d.texts(), env: d.texts(),
		stdin: d.flag(), framed: d.flag(), cpu: d.number(), files: d.number(),
		memory: d.number(), processes: d.number(), user: d.user(),
	}
	if d.flag() {
		umask := d.id()
		s.umask = &umask
	}
	return s, d.err
}

func (x exitReport) encode() *encoder {
	e := newPacket(packetExited)
	e.number(x.seq)
	e.number(uint64(x.status))
	e.number(x.cpu)
	e.flag(x.killed)
	e.number(x.group)
	e.text(x.left)
	return e
}

func decodeExit(body []byte) (exitReport, error) {
	d := decoder{b: body}
	x := exitReport{seq: d.number()}
	x.status = syscall.WaitStatus(d.number()) //nolint:gosec // the kernel's 32 bits
	x.cpu, x.killed, x.group, x.left = d.number(), d.flag(), d.number(), d.text()
	return x, d.err
}

// wire is one end of the socket.
type wire interface {
	// receive fills p as far as one message goes and takes the descriptors that came with it.
	receive(p, oob []byte) (n, oobn int, err error)
	// send writes all of p, with the descriptors on its first byte.
	send(p, oob []byte) error
}

// readPacket reads one packet. io.EOF means that the other end is gone. The caller owns the descriptors.
func readPacket(w wire) (kind byte, body []byte, fds []int, err error) {
	var header [packetHeader]byte
	oob := make([]byte, syscall.CmsgSpace(descriptors*4))
	n, oobn, err := w.receive(header[:], oob)
	if err != nil {
		return 0, nil, nil, err
	}
	if n == 0 {
		return 0, nil, nil, io.EOF
	}
	fds = takeDescriptors(oob[:oobn])
	if body, err = readBody(w, header[:], n); err != nil {
		closeAll(fds)
		return 0, nil, nil, err
	}
	return header[4], body, fds, nil
}

func readBody(w wire, header []byte, have int) ([]byte, error) {
	if err := readFull(w, header[have:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(header)
	if size > packetMax {
		return nil, errPacket
	}
	body := make([]byte, size)
	return body, readFull(w, body)
}

func readFull(w wire, p []byte) error {
	for len(p) > 0 {
		n, _, err := w.receive(p, nil)
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		p = p[n:]
	}
	return nil
}

// takeDescriptors returns the descriptors in the control messages.
func takeDescriptors(oob []byte) []int {
	if len(oob) == 0 {
		return nil
	}
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var fds []int
	for i := range messages {
		if got, err := syscall.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}

// blockingWire is the guardian's end of the socket. It uses plain system calls: the thread that waits in them also
// starts the programs, and a poller would only add a switch of threads.
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

// pollingWire is the node's end of the socket.
type pollingWire struct{ conn *net.UnixConn }

func (w pollingWire) receive(p, oob []byte) (n, oobn int, err error) {
	n, oobn, _, _, err = w.conn.ReadMsgUnix(p, oob)
	return n, oobn, err
}

func (w pollingWire) send(p, oob []byte) error {
	n, _, err := w.conn.WriteMsgUnix(p, oob, nil)
	if err != nil || n == len(p) {
		return err
	}
	if _, err = w.conn.Write(p[n:]); err != nil {
		return fmt.Errorf("half a packet was sent: %s", err.Error()) // not ErrShortage, even for a lack: the stream is useless
	}
	return nil
}
