package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrShortage is wrapped by errors of a start that the node, or the machine, has no descriptors, memory or processes for.
// The program has done nothing, and is not to blame: the same start may work later.
var ErrShortage = errors.New("the node is short of open files, memory or processes")

// shortages are the kernel's words for what a start lacks: descriptors of the process or the machine, memory, room for
// another process, descriptors on their way through sockets, room in a socket.
var shortages = []error{
	unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.ETOOMANYREFS, unix.ENOBUFS,
}

// lacks reports whether an error of a start says that the node lacks something.
func lacks(err error) bool {
	for _, e := range shortages {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// short makes an error of a start one of ErrShortage where the node lacks something; any other is returned as it is.
func short(err error) error {
	if err == nil || errors.Is(err, ErrShortage) || !lacks(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrShortage, err)
}

// Short makes an error of what a start takes, such as a file that could not be opened, one of ErrShortage where the node lacks
// something; any other is returned as it is.
func Short(err error) error { return short(err) }

// refusal is why a guardian has not started a program, as it came over the wire.
type refusal struct {
	text  string
	short bool // the guardian lacks something of the node
}

func (r refusal) Error() string {
	if r.short {
		return ErrShortage.Error() + ": " + r.text
	}
	return r.text
}

func (r refusal) Unwrap() error {
	if r.short {
		return ErrShortage
	}
	return nil
}

// pipesOfAStart is how many pipes the node makes to start a program: its input and both of its outputs.
const pipesOfAStart = 3

// CheckRoom reports whether this process can make what the start of a program takes here. The error is one of ErrShortage.
// What the guardian needs beside it, which is memory and a process, shows at a start alone.
func CheckRoom() error {
	fds := make([]int, 0, 2*pipesOfAStart)
	defer func() { closeAll(fds) }()
	for range pipesOfAStart {
		read, write, err := newPipe()
		if err != nil {
			return short(fmt.Errorf("make pipes: %w", err))
		}
		fds = append(fds, read, write)
	}
	return nil
}
