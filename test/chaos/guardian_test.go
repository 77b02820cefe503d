package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func TestGuardianKilled(t *testing.T) {
	t.Parallel()
	guardianKilled(t, 1)
}

func TestWholeGuardianKilled(t *testing.T) {
	wholeOnly(t)
	guardianKilled(t, 8)
}

// guardian finds the parent of the worker processes. A worker whose process has just ended is passed over.
func (n *node) guardian() proc {
	n.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, w := range n.workers("chaos.py") {
			worker, alive := readProc(w.Pid)
			if !alive {
				continue
			}
			require.NotEqual(n.t, n.command.Process.Pid, worker.parent, "the node itself is the parent of its workers")
			if guardian, alive := readProc(worker.parent); alive {
				return guardian
			}
		}
	}
	require.FailNow(n.t, "no worker of the node runs")
	return proc{}
}

// guardianKills is how often a node's guardian is killed. A guardian that ends five times within ten seconds is restarted with a
// delay, as every supervised child is.
const guardianKills = 4

// guardianKilled kills the guardian of a node. All workers end with it. The node starts another guardian, and the workers come
// back. Runs are abandoned or, if they are idempotent, repeated. The node does not restart.
func guardianKilled(t *testing.T, nodes int) {
	random := rand.New(rand.NewPCG(seed(t), 4))
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(nodes)*2*time.Minute)
	defer cancel()
	var healed []time.Duration
	for range nodes {
		n := newNode(t, "pack")
		n.start()
		n.ready()
		c := &caller{node: n}
		for round := range guardianKills {
			n.allReady()
			healed = append(healed, n.killGuardian(ctx, c, round, random))
		}
		n.settled(30 * time.Second)
		n.verdict(n.history(c))
		require.Equal(t, 1, n.boots)
		n.kill()
	}
	slices.Sort(healed)
	t.Logf("guardians killed %d; all workers back after p50 %s, max %s", len(healed), quantile(healed, 0.5), quantile(healed, 1))
}

// killGuardian kills the guardian while every runtime has work. It returns the time until all workers are back, each in a new
// process.
func (n *node) killGuardian(ctx context.Context, c *caller, round int, random *rand.Rand) time.Duration {
	n.t.Helper()
	old, guardian := n.marked(), n.guardian()
	ids := n.keepBusy(ctx, c, round)
	time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond) // the time of the kill depends on the seed
	began := time.Now()
	require.NoError(n.t, syscall.Kill(guardian.pid, syscall.SIGKILL))
	n.eventually(orphanTime, "the workers of the killed guardian have ended", func(context.Context) bool {
		for _, p := range old {
			if now, alive := readProc(p.pid); alive && now.born == p.born && now.state != "Z" {
				return false
			}
		}
		return true
	})
	n.allReady()
	healed := time.Since(began)
	require.NotEqual(n.t, guardian, n.guardian())
	for _, id := range ids {
		_, err := c.wait(ctx, id)
		require.NoError(n.t, err)
	}
	return healed
}

// keepBusy submits some work for every pool that has processes.
func (n *node) keepBusy(ctx context.Context, c *caller, round int) []messages.ExecutionID {
	n.t.Helper()
	var ids []messages.ExecutionID
	for i := range 24 {
		k := []string{"chaos.work", "chaos.redo", "chaos.sh_work", "chaos.go_work", "chaos.go_redo", "chaos.count"}[i%6]
		w := &work{want: ends(messages.Completed)}
		w.ActionRef, w.IdempotencyKey = k, fmt.Sprintf("guardian-%d-%d", round, i)
		w.Parameters = json.RawMessage(`{"ms":80}`)
		if k == "chaos.count" {
			w.Session = fmt.Sprintf("g%d", i)
		}
		id, err := c.submit(ctx, w)
		require.NoError(n.t, err)
		ids = append(ids, id)
	}
	return ids
}

// allReady waits until every worker is ready or busy, in a live process.
func (n *node) allReady() {
	n.t.Helper()
	n.eventually(replaceTime, "every worker is back", func(context.Context) bool {
		for _, w := range n.workers("") {
			if w.State != "ready" && w.State != "busy" {
				return false
			}
			if p, alive := readProc(w.Pid); w.Pid > 0 && (!alive || p.state == "Z") {
				return false
			}
		}
		return true
	})
}
