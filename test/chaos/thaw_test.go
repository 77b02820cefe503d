package chaos_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// beat is how often a node renews its lease by default. If a node was frozen beyond its lease, its handlers may continue for that
// long after the thaw.
const beat = time.Second

// holdings is how many runs the program has when it is frozen. The other program has at least as many free workers.
const holdings = 3

func TestThawedHandlersAreTold(t *testing.T) {
	t.Parallel()
	thawedHandlers(t, 1)
}

func TestWholeThawedHandlersAreTold(t *testing.T) {
	wholeOnly(t)
	thawedHandlers(t, 10)
}

// thawedHandlers freezes a program with an embedded node until another node repeats its runs, and thaws it. The contexts of its
// handlers must end within a beat.
func thawedHandlers(t *testing.T, rounds int) {
	paths, err := built()
	require.NoError(t, err)
	f := newOwnPostgres(t)
	held := filepath.Join(t.TempDir(), "held.log")
	a, b := f.join("a", paths.gonode, "pack", "CHAOS_HELD="+held), f.join("b", paths.gonode, "pack", "CHAOS_HELD="+held)
	a.start()
	a.ready()
	var told []time.Duration
	for round := range rounds {
		told = append(told, f.thawOnce(a, b, held, fmt.Sprint(round))...)
	}
	slices.Sort(told)
	require.NotEmpty(t, told)
	t.Logf("%d handlers told after their node's thaw: p50 %s, max %s", len(told), quantile(told, 0.5), quantile(told, 1))
}

// thawOnce does so once with node a. It starts node b, which repeats the work, when a has all of it. It returns how long after
// the thaw each handler's context ended.
func (f *full) thawOnce(a, b *node, held, round string) (told []time.Duration) {
	f.t.Helper()
	c := &caller{node: a}
	f.submitAll(c, "chaos.hold", round, holdings, 40*time.Second, messages.Completed)
	pid := a.command.Process.Pid
	runs := func(pid int, attempt messages.Attempt) []messages.ExecutionID {
		return begun(f.t, held, func(h heldLine) bool { return h.pid == pid && h.attempt == attempt && h.of(c) })
	}
	a.eventually(backTime, "the work runs", func(context.Context) bool { return len(runs(pid, 1)) == holdings })
	b.start()
	b.ready()
	mine := runs(pid, 1)
	before := b.incarnation("a").Incarnation
	a.signal(syscall.SIGSTOP)
	b.eventually(backTime, "the frozen node is declared dead, and its work repeated", func(context.Context) bool {
		return b.incarnation("a").State == store.NodeDead && len(runs(b.command.Process.Pid, 2)) > 0
	})
	thawed := monotonic(f.t)
	a.signal(syscall.SIGCONT)
	ours := func(h heldLine) bool { return h.pid == pid && h.attempt == 1 && slices.Contains(mine, h.id) }
	b.eventually(backTime, "the handlers are told", func(context.Context) bool {
		return len(lines(f.t, held, func(h heldLine) bool { return h.kind == "told" && ours(h) })) == len(mine)
	})
	for _, h := range lines(f.t, held, func(h heldLine) bool { return ours(h) && h.at > thawed }) {
		require.LessOrEqual(f.t, h.at-thawed, beat, "a handler goes on after the thaw: %+v", h)
		if h.kind == "told" {
			told = append(told, h.at-thawed)
		}
	}
	b.eventually(backTime, "the thawed node is back as another incarnation", func(context.Context) bool {
		now := b.incarnation("a")
		return now.Incarnation != before && now.State == store.NodeActive
	})
	f.well()
	b.settled(backTime)
	b.stop()
	return told
}

// monotonic is the clock that all processes of the machine share.
func monotonic(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return time.Duration(now.Nano())
}

// heldLine is one line of the handlers' log.
type heldLine struct {
	kind    string
	id      messages.ExecutionID
	attempt messages.Attempt
	pid     int
	at      time.Duration
}

// of reports whether the line is of an execution that the caller submitted.
func (h heldLine) of(c *caller) bool {
	for _, call := range c.calls {
		if call.ID == h.id {
			return true
		}
	}
	return false
}

// lines are the lines of the handlers' log for which wanted is true.
func lines(t *testing.T, path string, wanted func(heldLine) bool) (all []heldLine) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var h heldLine
		var id string
		if n, _ := fmt.Sscan(line, &h.kind, &id, &h.attempt, &h.pid, &h.at); n != 5 || !strings.HasSuffix(line, "\n") {
			continue // the line is not complete yet
		}
		h.id, err = messages.ParseExecutionID(id)
		require.NoError(t, err)
		if wanted(h) {
			all = append(all, h)
		}
	}
	return all
}

// begun are the executions of the lines that report a start.
func begun(t *testing.T, path string, wanted func(heldLine) bool) (ids []messages.ExecutionID) {
	t.Helper()
	for _, h := range lines(t, path, func(h heldLine) bool { return h.kind == "start" && wanted(h) }) {
		ids = append(ids, h.id)
	}
	return ids
}
