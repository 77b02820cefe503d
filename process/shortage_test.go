package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/messages"
)

// playHungry runs a node that uses up its descriptors: before its guardian has started, and after.
func playHungry() {
	g, err := NewGuardian(Config{})
	if err != nil {
		panic(err)
	}
	attempt := func() {
		r := newRecorder()
		_, err := g.Start(context.Background(), Spec{Argv: shell("exit 0"), Env: environment(), Stdin: []byte("{}")}, r.sink)
		switch {
		case err == nil:
			for {
				if _, over := (<-r).(Exited); over {
					break
				}
			}
			fmt.Println("started", CheckRoom() == nil)
		case errors.Is(err, ErrShortage):
			fmt.Println("short", !errors.Is(err, ErrGuardian) || g.Pid() == 0, errors.Is(CheckRoom(), ErrShortage))
		default:
			fmt.Println("failed", err)
		}
	}
	eaten := eat()
	attempt()
	closeAll(eaten)
	attempt()
	eaten = eat()
	attempt()
	closeAll(eaten)
	attempt()
	if err := g.Close(); err != nil {
		panic(err)
	}
}

// eat opens all descriptors that this process may have.
func eat() (fds []int) {
	if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
		panic(err)
	}
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fds
		}
		fds = append(fds, fd)
	}
}

// A node without descriptors cannot start programs. It reports the lack, does not blame the programs, and starts them
// later.
func TestANodeWithoutDescriptorsIsShort(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = environment(roleVar + "=hungry")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, []string{"short true true", "started true", "short true true", "started true"}, strings.Split(strings.TrimSpace(string(out)), "\n"))
}

// A guardian without descriptors lives on. It reports a start without room as a lack, and running programs stay.
func TestAGuardianWithoutDescriptorsIsShort(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	_, running := run(t, g, Spec{Argv: []string{"sleep", "60"}})
	guardian := g.Pid()
	var was unix.Rlimit
	require.NoError(t, unix.Prlimit(guardian, unix.RLIMIT_NOFILE, nil, &was))
	for _, limits := range []messages.Limits{{}, {OpenFiles: 64}} { // the second uses the shim
		require.NoError(t, unix.Prlimit(guardian, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: was.Max}, nil))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := g.Start(ctx, Spec{Argv: shell("exit 0"), Env: environment(), Limits: limits}, newRecorder().sink)
		cancel()
		require.ErrorIs(t, err, ErrShortage)
		require.NotErrorIs(t, err, ErrGuardian)
		require.NoError(t, unix.Prlimit(guardian, unix.RLIMIT_NOFILE, &was, nil))
		_, events := run(t, g, Spec{Argv: shell("exit 5"), Limits: limits})
		exit, _ := events.exit(t)
		require.Equal(t, 5, exit.Code)
	}
	require.Equal(t, guardian, g.Pid(), "the same guardian")
	require.Empty(t, running, "its programs run on")
}

func TestLacks(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		fmt.Errorf("make pipes: %w", unix.EMFILE):            true,
		&os.PathError{Op: "fork/exec", Err: syscall.EAGAIN}:  true,
		os.NewSyscallError("socketpair", syscall.ENFILE):     true,
		fmt.Errorf("fork: %w", syscall.ENOMEM):               true,
		fmt.Errorf("%w: %w", ErrGuardian, syscall.EMFILE):    true,
		fmt.Errorf("%w: died: the next starts", ErrGuardian): false,
		&os.PathError{Op: "fork/exec", Err: syscall.ENOENT}:  false,
		&os.PathError{Op: "fork/exec", Err: syscall.EACCES}:  false,
		fmt.Errorf("arguments are too long: %w", unix.E2BIG): false,
		context.DeadlineExceeded:                             false,
	} {
		require.Equal(t, want, errors.Is(short(err), ErrShortage), "%v", err)
	}
	require.NoError(t, short(nil))
	for _, r := range []refusal{{text: "x", short: true}, {text: "y"}, {short: true}, {text: "z", never: true}, {}} {
		require.Equal(t, r, readRefusal(r.report()))
		require.Equal(t, r.short, errors.Is(r, ErrShortage))
		require.Equal(t, r.never, errors.Is(r, ErrUnstartable))
	}
}
