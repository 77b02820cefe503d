package node_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// pairVar makes the test binary the second node of a pair: the URL of the Postgres that both use.
const pairVar = "TROUPE_TEST_PAIR"

const pairLease = 4 * time.Second

// paired makes a node one of several on one Postgres. Each has a broker of its own, for each places on its own workers.
func paired(c *node.Config, url string) {
	c.OpenStore = func(ctx context.Context) (store.Store, error) {
		return postgres.Open(ctx, postgres.Config{URL: url, Name: c.Name, EventsAll: true})
	}
	c.OpenBroker = func(context.Context) (broker.Broker, error) { return memory.New(memory.Config{}), nil }
	c.Lease, c.BeatEvery = pairLease, pairLease/4
}

// playSecond is the second node: it submits one execution of each kind, and says what happens to them.
func playSecond() {
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	hold := func(ctx context.Context, t *messages.Task) (any, error) {
		say("runs %s", t.ID)
		<-ctx.Done()
		say("stopped %s", t.ID)
		return "written by a node that was dead", nil
	}
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	cfg := node.Config{
		Name: "second", Data: os.Args[1], NoBuiltins: true, Packs: []string{os.Args[2]}, Health: node.Health{EchoInterval: -1},
		Logger:   hclog.New(&hclog.LoggerOptions{Output: os.Stderr}),
		Handlers: map[string]messages.Handler{"t.again": hold},
	}
	paired(&cfg, os.Getenv(pairVar))
	cfg.Peers.Listen = "127.0.0.1:0"
	keeper, err := node.NewKeeper(cfg)
	must(err)
	must(keeper.Start(context.Background()))
	file := filepath.Join(os.Args[1], "pid")
	submitted, err := keeper.Backend().Submit(context.Background(), []submit.Request{ask("t.again", nil), ask("t.once", object{"file": file})})
	must(err)
	say("submitted %s %s", submitted[0].Execution.ID, submitted[1].Execution.ID)
	for last := (messages.Incarnation{}); ; time.Sleep(20 * time.Millisecond) {
		if now := keeper.Node().Incarnation(); now != last {
			last = now
			say("incarnation %s", now)
		}
	}
}

// second is the second node as the test sees it.
type second struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	over  [][]string // words of lines that were passed over
	data  string
}

func startSecond(t *testing.T, url, pack string) *second { return startAs(t, pairVar, url, pack) }

// startAs starts the test binary as another node: what that does is said by the variable that has the URL.
func startAs(t *testing.T, variable, url, pack string) *second {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	s := &second{t: t, data: t.TempDir(), lines: make(chan string, 1024)}
	s.cmd = exec.Command(self, s.data, pack)
	s.cmd.Env = append(os.Environ(), variable+"="+url)
	log := &record{}
	s.cmd.Stderr = log
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	heard := make(chan struct{})
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-heard
		_ = s.cmd.Wait()
		if t.Failed() {
			t.Logf("the second node's log:\n%s", tail(log.String(), 8000))
		}
	})
	go func() {
		defer close(heard)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.lines <- lines.Text()
		}
	}()
	return s
}

// says waits for a line that begins with the word, and returns what follows. Lines come in no order: others are kept.
func (s *second) says(word string) []string {
	s.t.Helper()
	for i, fields := range s.over {
		if fields[0] == word {
			s.over = slices.Delete(s.over, i, i+1)
			return fields[1:]
		}
	}
	for end := time.After(patience); ; {
		select {
		case line := <-s.lines:
			fields := strings.Fields(line)
			if fields[0] == word {
				return fields[1:]
			}
			s.over = append(s.over, fields)
		case <-end:
			require.FailNow(s.t, "the second node never said "+word)
		}
	}
}

func (s *second) signal(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(sig))
}

// A node of two on one Postgres is killed, or frozen for longer than its lease: the other takes its work up within the
// lease, a beat and a second; its processes are gone by then; and one that thaws writes nothing, stops what it had, and
// comes back as a new incarnation.
func TestTwoNodesOnOnePostgres(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "frozen": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, g := database(t), newGate()
			pack := packOf(t, "t", "", files{
				"actions/again.yaml": "name: again\nruntime: go\nentrypoint: t.again\nidempotent: true\n",
				"actions/once.yaml":  "name: once\nruntime: shell\ncommand: [sh, -c, 'echo $$ > $TROUPE_PARAM_FILE.new; mv $TROUPE_PARAM_FILE.new $TROUPE_PARAM_FILE; exec sleep 600']\n",
			})
			other := startSecond(t, url, pack)
			ids := other.says("submitted")
			first := other.says("incarnation")[0]
			again, once := parse(t, ids[0]), parse(t, ids[1])
			k := lab(t, func(c *node.Config) {
				paired(c, url)
				handle(map[string]messages.Handler{"again": g.run})(c)
			}, pack)
			k.becomes(again, messages.Running)
			k.becomes(once, messages.Running)
			why, err := k.Backend.Why(t.Context(), again)
			require.NoError(t, err)
			require.Regexp(t, `^running: it is running; its worker is second/go/\d+, of another node$`, why.Reason+": "+why.Message)
			pid := other.pid(k)
			steady := time.Now().Add(pairLease + pairLease/4)
			k.until("this node may declare others dead", func() bool {
				return time.Now().After(steady) && strings.Contains(k.log.String(), "node is up: node=second")
			})
			struck := time.Now()
			other.signal(strike)
			require.Equal(t, again, g.next(t).ID)
			took := time.Since(struck)
			t.Logf("taken up after %s", took.Round(time.Millisecond))
			require.Less(t, took, pairLease+2*time.Second)
			k.gone(pid)
			require.Less(t, time.Since(struck), pairLease+3*time.Second)
			close(g.open)
			outcomes := []messages.Execution{k.await(again), k.await(once)}
			if strike == syscall.SIGSTOP {
				other.signal(syscall.SIGCONT)
				require.Equal(t, ids[0], other.says("stopped")[0], "its handler's context ends")
				require.NotEqual(t, first, other.says("incarnation")[0])
			}
			require.Equal(t, messages.Completed, outcomes[0].Status)
			require.Equal(t, messages.Attempt(2), outcomes[0].Attempt)
			require.Equal(t, messages.Abandoned, outcomes[1].Status)
			require.Equal(t, messages.CodeWorkerLost, code(outcomes[1]))
			for _, before := range outcomes {
				require.Equal(t, before, k.await(before.ID), "nothing is written over an outcome")
				require.Len(t, k.events(before.ID)["finish"], 1, "one outcome")
			}
		})
	}
}

// pid is the process of the second node's shell worker.
func (s *second) pid(k *kit) int {
	s.t.Helper()
	var pid int
	k.until("the shell's process runs", func() bool {
		raw, err := os.ReadFile(filepath.Join(s.data, "pid"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(raw)))
		return err == nil
	})
	return pid
}

func parse(t *testing.T, text string) messages.ExecutionID {
	t.Helper()
	id, err := messages.ParseExecutionID(text)
	require.NoError(t, err)
	return id
}
