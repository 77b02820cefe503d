package chaos_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/submit"
)

// orphanTime is the promised bound: no process of a node lives longer after the node's end.
const orphanTime = 5 * time.Second

func TestNothingOutlivesTheNode(t *testing.T) {
	t.Parallel()
	nothingOutlivesTheNode(t, 20)
}

func TestWholeNothingOutlivesTheNode(t *testing.T) {
	wholeOnly(t)
	nothingOutlivesTheNode(t, 200)
}

// proc is one process. With its start time, a reused pid is another process.
type proc struct {
	pid     int
	born    string // start time, in ticks since the boot of the machine
	state   string
	name    string
	parent  int
	session int
}

// readProc reads a process; ok is false if it does not exist.
func readProc(pid int) (p proc, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	head, rest, found := bytes.Cut(stat, []byte(") "))
	fields := bytes.Fields(rest)
	if err != nil || !found || len(fields) < 20 {
		return proc{}, false
	}
	p = proc{pid: pid, state: string(fields[0]), born: string(fields[19]), name: string(head[bytes.IndexByte(head, '(')+1:])}
	p.parent, _ = strconv.Atoi(string(fields[1])) // always a number
	p.session, _ = strconv.Atoi(string(fields[3]))
	return p, true
}

// marked finds every living process that has the node's mark in its environment: the workers and their descendants.
func (n *node) marked() []proc {
	n.t.Helper()
	mark := []byte(markName + "=" + n.mark + "\x00")
	var found []proc
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(n.t, err)
	for _, path := range entries {
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(append(environ, 0), mark) {
			continue // it has ended, or belongs to another user
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		require.NoError(n.t, err)
		if p, alive := readProc(pid); alive && p.state != "Z" && p.state != "X" {
			found = append(found, p)
		}
	}
	return found
}

// gone waits until no process with the mark lives, and returns how long that took.
func (n *node) gone() time.Duration {
	n.t.Helper()
	began := time.Now()
	for {
		alive := n.marked()
		took := time.Since(began)
		if len(alive) == 0 {
			return took
		}
		require.Less(n.t, took, orphanTime, "alive after the node's end: %v", alive)
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

// bystander is a process that has nothing to do with any node. Any signal would end it.
func bystander(t *testing.T) proc {
	t.Helper()
	command := exec.Command("sleep", "3600")
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	p, alive := readProc(command.Process.Pid)
	require.True(t, alive)
	return p
}

func nothingOutlivesTheNode(t *testing.T, kills int) {
	random := rand.New(rand.NewPCG(seed(t), 2))
	n := newNode(t, "family")
	other := bystander(t)
	var took []time.Duration
	most, early := 0, 0
	for range kills {
		n.start()
		if random.IntN(4) == 0 { // while the workers start
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) // the time of the kill depends on the seed
			early++
		} else {
			most = max(most, n.raise())
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		}
		n.kill()
		took = append(took, n.gone())
	}
	n.start() // shows that the node still starts; the stop that follows also ends its guardian, so that nothing writes to the test's folder afterwards
	n.stop()
	after, alive := readProc(other.pid)
	require.True(t, alive, "the bystander is gone")
	require.Equal(t, other.born, after.born, "the bystander is another process")
	slices.Sort(took)
	t.Logf("kills %d, of them %d while the workers started; up to %d processes alive at a kill; all gone after p50 %s, p99 %s, max %s",
		kills, early, most, quantile(took, 0.5), quantile(took, 0.99), quantile(took, 1))
}

// The fewest processes of each pool: each Python worker with its two children and its daemon, and the same for the shell's.
const (
	familyMin  = 2*4 + 3
	daemonsMin = 2
)

// raise starts the process trees of both pools, and returns how many processes live then.
func (n *node) raise() int {
	n.t.Helper()
	for _, action := range []string{"family.family", "family.family", "family.shell_family"} {
		n.post("/api/v1/executions", &submit.Request{ActionRef: action}, nil)
	}
	count, daemons := 0, 0
	end := time.Now().Add(bootTime)
	for count < familyMin || daemons < daemonsMin {
		require.True(n.t, time.Now().Before(end), "only %d processes and %d daemons", count, daemons)
		time.Sleep(5 * time.Millisecond) // between two looks
		family := n.marked()
		count, daemons = len(family), 0
		for _, p := range family {
			if strings.HasPrefix(p.name, "python") && p.daemon() {
				daemons++
			}
		}
	}
	return count
}

// daemon reports whether the process has left its parent by setsid and a second fork: it is in a session of its tree that it does
// not lead.
func (p proc) daemon() bool {
	test, alive := readProc(os.Getpid())
	return alive && p.session != test.session && p.session != p.pid && p.session != p.parent
}
