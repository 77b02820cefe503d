package process

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func openFiles(t testing.TB, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(procPath(pid, "fd"))
	require.NoError(t, err)
	return len(entries)
}

// Not parallel: other tests would open descriptors meanwhile.
func TestNoDescriptorLeaks(t *testing.T) {
	g := newGuardian(t, Config{Ledger: t.TempDir() + "/ledger"})
	text := t.TempDir() + "/text"
	require.NoError(t, os.WriteFile(text, []byte("hello\n"), 0o700))
	round := func() {
		for _, spec := range []Spec{
			{Argv: []string{"true"}},
			{Argv: shell("printf garbage >&4; sleep 60"), Framed: true},
			{Argv: []string{"true"}, Stdin: make([]byte, 1<<20), Limits: messages.Limits{OpenFiles: 64}},
			{Argv: shell("setsid sleep 60 & exit 1"), Stdin: []byte("x")},
		} {
			_, events := run(t, g, spec)
			events.exit(t)
		}
		for _, limits := range []messages.Limits{{}, {OpenFiles: 64}} {
			_, err := g.Start(t.Context(), Spec{Argv: []string{text}, Limits: limits, Framed: true}, func(Event) {})
			require.Error(t, err)
		}
	}
	round()
	node, guardian := openFiles(t, os.Getpid()), openFiles(t, g.Pid())
	for range 10 {
		round()
	}
	require.Eventually(t, func() bool {
		return openFiles(t, os.Getpid()) <= node && openFiles(t, g.Pid()) <= guardian && len(childrenOf(g.Pid())) == 0
	}, patience, time.Millisecond, "descriptors or zombies are left")
	require.Empty(t, g.link.all())
}

// Not parallel: it loads a small machine.
func TestStormOfKills(t *testing.T) {
	g := newGuardian(t, Config{})
	const many = 200
	var programs []Process
	var sinks []recorder
	for range many {
		p, r := run(t, g, Spec{Argv: []string{"sleep", "60"}})
		programs, sinks = append(programs, p), append(sinks, r)
	}
	began := time.Now()
	for _, p := range programs {
		p.Kill()
	}
	for _, r := range sinks {
		exit, _ := r.exit(t)
		require.Equal(t, CauseStopped, exit.Cause)
	}
	t.Logf("%d programs killed and told in %s", many, time.Since(began))
}
