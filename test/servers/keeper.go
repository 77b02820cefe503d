package servers

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// keeperScript is what outlives the test binary. It reads "+ pid signal" and "- pid" lines and, when its input ends,
// ends the processes that are left: with their signal, and with SIGKILL for the whole family where that does not help
// within 5 s. Then it runs the command that it was given, and removes its folder. It is a shell script, since the binary
// of a test has a main function of its own.
const keeperScript = `
dir=$1; shift
kept=
while read -r sign pid signal; do
	case $sign in
	+) kept="$kept $pid:$signal" ;;
	-) left=
		for k in $kept; do [ "${k%%:*}" = "$pid" ] || left="$left $k"; done
		kept=$left ;;
	esac
done
family() {
	echo "$1"
	for child in $(ps -o pid= --ppid "$1"); do family "$child"; done
}
end() {
	if [ "$2" != KILL ]; then
		kill -s "$2" "$1"; kill -s CONT $(family "$1")
		for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
			kill -0 "$1" || return
			sleep 0.2
		done
	fi
	kill -s STOP "$1"
	kill -s KILL $(family "$1")
}
for k in $kept; do end "${k%%:*}" "${k#*:}"; done
[ $# -eq 0 ] || "$@"
[ -z "$dir" ] || rm -rf -- "$dir"
`

// keeper ends processes, and removes their folder, when this process ends in whatever way.
type keeper struct {
	mu    sync.Mutex
	cmd   *exec.Cmd
	input io.WriteCloser
}

// newKeeper starts a keeper that at the end runs the command, if any, and removes dir, unless it is empty.
func newKeeper(dir string, command ...string) (*keeper, error) {
	cmd := exec.Command("sh", append([]string{"-c", keeperScript, "sh", dir}, command...)...)
	cmd.Dir = os.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what is sent to the test's terminal or group is not for it
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	k := &keeper{cmd: cmd, input: input}
	keepers.Store(k, true)
	return k, nil
}

// keepers are those that work. A keeper that nobody holds would be told of the end when its pipe is collected.
var keepers sync.Map

// keep has the process end with this one, by the named signal.
func (k *keeper) keep(pid int, signal string) error { return k.tell("+ %d %s\n", pid, signal) }

// forget must be called when a process has been reaped: its id may soon be somebody else's.
func (k *keeper) forget(pid int) error { return k.tell("- %d\n", pid) }

func (k *keeper) tell(format string, args ...any) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := fmt.Fprintf(k.input, format, args...); err != nil {
		return fmt.Errorf("tell keeper: %w", err)
	}
	return nil
}

// end has the keeper do its last work now, and waits for it.
func (k *keeper) end() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	keepers.Delete(k)
	if err := k.input.Close(); err != nil {
		return fmt.Errorf("end keeper: %w", err)
	}
	if err := k.cmd.Wait(); err != nil {
		return fmt.Errorf("end keeper: %w", err)
	}
	return nil
}
