package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// startMax bounds the arguments and the environment of a process that are looked through, in bytes. The kernel's own bound
// is 6 MiB for a stack of the usual size.
const startMax = 8 << 20

// startMemory is where the kernel put this process's arguments and environment. /proc/PID/cmdline shows the one to every
// user of the machine, and /proc/PID/environ the other to this user, for as long as the process lives: what the program
// unsets in its own copy stays visible there.
type startMemory struct{ argStart, argEnd, envStart, envEnd uint64 }

// findStartMemory reads the addresses, fields 48 to 51 of /proc/self/stat. The program's name may hold anything, so the fields
// count from its last ')'.
func findStartMemory() (startMemory, error) {
	raw, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return startMemory{}, err
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	const first = 48 - 3 // the field behind the name is the third
	if len(fields) < first+4 {
		return startMemory{}, errors.New("/proc/self/stat does not tell where they are")
	}
	var at [4]uint64
	for i := range at {
		if at[i], err = strconv.ParseUint(string(fields[first+i]), 10, 64); err != nil {
			return startMemory{}, fmt.Errorf("/proc/self/stat, field %d: %w", first+3+i, err)
		}
	}
	return startMemory{at[0], at[1], at[2], at[3]}, nil
}

// overwrite hands the memory between two addresses to a function that returns the parts of it to write over.
func overwrite(from, to uint64, parts func([]byte) []blank) error {
	if from == 0 || to <= from || to-from > startMax {
		return nil
	}
	text := make([]byte, to-from)
	local, remote := unix.Iovec{Base: &text[0]}, unix.RemoteIovec{Base: uintptr(from), Len: len(text)}
	local.SetLen(len(text))
	if _, err := unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0); err != nil {
		return err
	}
	for _, p := range parts(text) {
		for i := range text[p.from:p.to] {
			text[p.from+i] = p.fill
		}
		part := unix.Iovec{Base: &text[p.from]}
		part.SetLen(p.to - p.from)
		at := unix.RemoteIovec{Base: uintptr(from) + uintptr(p.from), Len: p.to - p.from} //nolint:gosec // an index
		if _, err := unix.ProcessVMWritev(os.Getpid(), []unix.Iovec{part}, []unix.RemoteIovec{at}, 0); err != nil {
			return err
		}
	}
	return nil
}

// blank is a part of a text that is never empty, and what it is filled with.
type blank struct {
	from, to int
	fill     byte
}

// variableSpans are the values of the named variables in an environment as the kernel keeps it, NAME=value and a NUL each.
func variableSpans(environ []byte, names []string) []blank {
	named := map[string]bool{}
	for _, n := range names {
		named[n] = true
	}
	var spans []blank
	for at := 0; at < len(environ); {
		end := len(environ)
		if i := bytes.IndexByte(environ[at:], 0); i >= 0 {
			end = at + i
		}
		if name, value, ok := bytes.Cut(environ[at:end], []byte("=")); ok && named[string(name)] && len(value) > 0 {
			spans = append(spans, blank{end - len(value), end, 0})
		}
		at = end + 1
	}
	return spans
}

// argumentSpans are the places of the values in a command line as the kernel keeps it: an argument, or what follows its '='.
func argumentSpans(line []byte, values []string) []blank {
	var spans []blank
	for _, v := range values {
		for at := 0; v != ""; {
			i := bytes.Index(line[at:], []byte(v))
			if i < 0 {
				break
			}
			from, to := at+i, at+i+len(v)
			begins := from == 0 || line[from-1] == 0 || line[from-1] == '='
			if begins && (to == len(line) || line[to] == 0) {
				spans = append(spans, blank{from, to, 'x'})
			}
			at = to
		}
	}
	return spans
}

// forgetVariables takes the variables out of this process's environment: out of what its own children would inherit, and out of
// what /proc shows of it. Those that only a library reads again stay in the copy of the process. Where none is set there is nothing to do.
func forgetVariables(names, shownOnly []string) error {
	names, shownOnly = setVariables(names), setVariables(shownOnly)
	if len(names)+len(shownOnly) == 0 {
		return nil
	}
	for _, n := range names {
		if err := os.Unsetenv(n); err != nil {
			return err
		}
	}
	m, err := findStartMemory()
	if err == nil {
		err = overwrite(m.envStart, m.envEnd, func(text []byte) []blank {
			return variableSpans(text, append(names[:len(names):len(names)], shownOnly...))
		})
	}
	if err != nil {
		return fmt.Errorf("tokens or addresses stay in this process's environment as /proc shows it: %w", err)
	}
	return nil
}

// setVariables are those of the variables that this process's environment has.
func setVariables(names []string) (set []string) {
	for _, n := range names {
		if _, ok := os.LookupEnv(n); ok {
			set = append(set, n)
		}
	}
	return set
}

// forgetArguments takes the values out of the command line that /proc shows. os.Args must not be read after it.
func forgetArguments(values []string) error {
	if len(values) == 0 {
		return nil
	}
	m, err := findStartMemory()
	if err == nil {
		err = overwrite(m.argStart, m.argEnd, func(text []byte) []blank { return argumentSpans(text, values) })
	}
	if err != nil {
		return fmt.Errorf("addresses stay in this process's command line as /proc shows it: %w", err)
	}
	return nil
}

// ownArguments copies the arguments of this call, since the strings in os.Args lie in the memory that forgetArguments writes over.
func ownArguments() []string {
	args := make([]string, len(os.Args))
	for i, a := range os.Args {
		args[i] = strings.Clone(a)
	}
	os.Args = args
	return args[min(1, len(args)):]
}
