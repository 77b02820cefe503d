package process

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrShortage is wrapped by errors of a start for which the node, or the machine, lacks descriptors, memory or
// processes. The program has done nothing and is not at fault. The same start may work later.
var ErrShortage = errors.New("the node is short of open files, memory or processes")

// ErrUnstartable is wrapped by errors of a start that fails in the same way each time, until somebody changes the command, the file or the
// machine: a program or an interpreter that is missing, a file that is no program or may not be executed, arguments that are too long.
var ErrUnstartable = errors.New("the program cannot be started")

// unstartable are the kernel's errors for it.
var unstartable = []error{
	unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENAMETOOLONG, unix.ENOEXEC, unix.ELIBBAD, unix.EACCES, unix.E2BIG,
}

// shortages are the kernel's errors for a lack: of descriptors in the process or on the machine, of memory, of room for
// another process, of descriptors in transit through sockets, of room in a socket.
var shortages = []error{
	unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.ETOOMANYREFS, unix.ENOBUFS,
}

// lacks reports whether an error says that the node lacks a resource.
func lacks(err error) bool { return isAny(err, shortages) }

func isAny(err error, of []error) bool {
	return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}

// final marks an error of a look-up with ErrUnstartable, unless the node lacks a resource. Its text stays.
func final(err error) error {
	if err == nil || lacks(err) || errors.Is(err, ErrUnstartable) {
		return err
	}
	return refusal{text: err.Error(), never: true}
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
	never bool // the same start fails again
}

func (r refusal) Error() string {
	if r.short {
		return ErrShortage.Error() + ": " + r.text
	}
	return r.text
}

func (r refusal) Unwrap() error {
	switch {
	case r.short:
		return ErrShortage
	case r.never:
		return ErrUnstartable
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
