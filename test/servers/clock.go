package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// clockFile says how far the server's clock is from the machine's.
const clockFile = "clock"

// fakeClock has the server read its time through libfaketime, from a file that it looks at each time. Its monotonic clock stays.
func (p *PostgresServer) fakeClock() error {
	found, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if err != nil || len(found) == 0 {
		return fmt.Errorf("tests set the clock of a Postgres with libfaketime, which is missing: `make test` installs it on Debian "+
			"as root or with sudo: apt-get install faketime (%v)", err)
	}
	p.env = []string{
		"LD_PRELOAD=" + found[0], "FAKETIME_TIMESTAMP_FILE=" + p.home.path(clockFile), "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
	}
	return p.SetClock(0)
}

// SetClock sets the server's clock ahead of the machine's, or behind it if negative, at once and for all its processes.
// The server must have been made with the option Clock.
func (p *PostgresServer) SetClock(ahead time.Duration) error {
	if p.env == nil {
		return fmt.Errorf("private Postgres on port %d was not made with a clock to be set", p.Port)
	}
	text := fmt.Sprintf("%+.3f\n", ahead.Seconds())
	if err := p.home.write(clockFile+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(p.home.path(clockFile+".new"), p.home.path(clockFile))
}
