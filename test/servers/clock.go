package servers

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// The files of a server whose clock can be set: how many nanoseconds it is ahead of the machine's, and what has the server read it so.
const (
	clockFile    = "clock"
	clockLibrary = "clock.so"
)

// clockSource is compiled for each server. A library that tests used before read a file with each look at the clock. Postgres looks at it in
// signal handlers too, and there the allocations of that read destroyed its heap (wolfcw/libfaketime issues 124 and 391).
//
//go:embed clock/clock.c
var clockSource string

// fakeClock has the server read its time through a library that adds what its file says. Its monotonic clock stays.
func (p *PostgresServer) fakeClock() error {
	if err := p.home.write(clockLibrary+".c", clockSource, 0o644); err != nil {
		return err
	}
	compile := exec.Command("cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", p.home.path(clockLibrary), p.home.path(clockLibrary+".c"))
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the library with which tests set the clock of a Postgres (on Debian: apt-get install gcc libc6-dev): %w: %s", err, out)
	}
	if err := os.Chmod(p.home.path(clockLibrary), 0o755); err != nil {
		return err
	}
	if err := p.home.write(clockFile, string(make([]byte, 8)), 0o644); err != nil {
		return err
	}
	p.env = []string{"LD_PRELOAD=" + p.home.path(clockLibrary), "TROUPE_TEST_CLOCK=" + p.home.path(clockFile)}
	return nil
}

// SetClock sets the server's clock ahead of the machine's, or behind it if negative, at once and for all its processes.
// The server must have been made with the option Clock.
func (p *PostgresServer) SetClock(ahead time.Duration) error {
	if p.env == nil {
		return fmt.Errorf("private Postgres on port %d was not made with a clock to be set", p.Port)
	}
	file, err := os.OpenFile(p.home.path(clockFile), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0) // in place, for the server has it mapped
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
