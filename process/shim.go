package process

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// shimArguments is how many arguments the shim needs at least: the descriptor for errors, the CPU seconds, the open
// files (0: no limit), the program's path, and its argv[0].
const shimArguments = 5

// runShim sets the limits of this process and becomes the program. It returns only if that fails, after it has written
// the reason to the error descriptor. That descriptor closes by itself when the program starts.
//
// Only programs with such limits are started by a shim, since it doubles or triples the time of a small command (see
// BenchmarkStart and BenchmarkStartLimited). Limits set from outside with prlimit(2) would cost nothing, but they would
// not hold for the program's first instants and for what it forks in them.
func runShim(args []string) int {
	if len(args) < shimArguments {
		return 126
	}
	report, err := strconv.Atoi(args[0])
	if err != nil {
		return 126
	}
	unix.CloseOnExec(report)
	err = setLimits(args[1], args[2])
	if err == nil {
		err = syscall.Exec(args[3], args[4:], os.Environ())
	}
	_, _ = unix.Write(report, refused(err, args[3]).report())
	return 126
}

// setLimits sets the soft limits. The hard limit of CPU time is one second higher, for a program that ignores SIGXCPU.
func setLimits(cpu, files string) error {
	seconds, err := strconv.ParseUint(cpu, 10, 64)
	if err != nil {
		return fmt.Errorf("cpu limit %q: %w", cpu, err)
	}
	open, err := strconv.ParseUint(files, 10, 64)
	if err != nil {
		return fmt.Errorf("open files limit %q: %w", files, err)
	}
	if seconds > 0 {
		if err := syscall.Setrlimit(unix.RLIMIT_CPU, &syscall.Rlimit{Cur: seconds, Max: seconds + 1}); err != nil {
			return fmt.Errorf("set cpu limit of %d s: %w", seconds, err)
		}
	}
	if open > 0 {
		if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: open, Max: open}); err != nil {
			return fmt.Errorf("set limit of %d open files: %w", open, err)
		}
	}
	return nil
}
