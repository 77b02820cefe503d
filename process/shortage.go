package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrShortage is wrapped by errors of a start for which the node, or the machine, lacks descriptors, memory or
// processes. The program has done nothing and is not at fault. The same start may work later.
var ErrShortage = errors.New("the node is short of open files, memory or processes")

// shortages are the kernel's errors for a lack: of descriptors in the process or on the machine, of memory, of room for
// another process, of descriptors in transit through sockets, of room in a socket.
var shortages = []error{
	unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.ETOOMANYREFS, unix.ENOBUFS,
}

// lacks reports whether an error says that the node lacks a resource.
func lacks(err error) bool {
	for _, e := range shortages {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// short wraps an error with ErrShortage where the node lacks a resource. It returns any other error as it is.
func short(err error) error {
	if err == nil || errors.Is(err, ErrShortage) || !lacks(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrShortage, err)
}

// Short wraps an error of a step of a start, such as a file that could not be opened, with ErrShortage where the node
// lacks a resource. It returns any other error as it is.
func Short(err error) error { return short(err) }

// refusal is a guardian's reason for not starting a program, as sent to the node.
type refusal struct {
	text  string
	short bool // the node lacks a resource
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

// pipesOfAStart is how many pipes the node makes for each start: standard input and both outputs.
const pipesOfAStart = 3

// CheckRoom reports whether this process can make the descriptors that a start takes. The error wraps ErrShortage. Only
// a real start shows whether the guardian has the memory and the process for it.
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
