package node_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/test/servers"
)

// partRing starts nodes of which only the last one serves t.where, as while a new action is rolled out. All have workers in its pool.
func partRing(t *testing.T, amqp string, settings broker.Settings) *ring {
	t.Helper()
	servers.Unraced(t)
	whole := ringPack(t)
	older := packOf(t, "t", "pools:\n  - name: lab\n    runtime: go\n    workers: 3\n", files{
		"actions/hold.yaml": "name: hold\nruntime: go\npool: lab\nentrypoint: t.hold\non_no_worker: wait\nidempotent: true\n",
	})
	r := &ring{t: t, gate: newGate(), change: func(*node.Config) {}}
	database := database(t)
	for name, pack := range map[string]string{"a": older, "b": older} {
		r.nodes = append(r.nodes, r.start(name, database, amqp, settings, pack))
	}
	r.nodes = append(r.nodes, r.start("c", database, amqp, settings, whole))
	r.settled(2, r.nodes[2]) // a router that serves other actions is not followed
	return r
}

// However few nodes serve an action, its executions run there: a worker of another node hands them back. There are more of them than the
// node that takes them has workers, so that its router or another one's places them elsewhere first.
func TestWorkGoesToTheNodeThatServesIt(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"direct", "broker"} {
		t.Run(name, func(t *testing.T) {
			amqp, settings := "", broker.Settings{}
			if name == "broker" {
				amqp, settings = ringBroker(t)
			}
			r := partRing(t, amqp, settings)
			serves := r.nodes[2]
			var ids []messages.ExecutionID
			for i := range 40 {
				change := func(*submit.Request) {}
				if i%4 == 0 {
					change = session("s"+string(rune('a'+i/4)), "")
				}
				ids = append(ids, serves.submit("t.where", nil, change))
			}
			for _, id := range ids {
				e := serves.await(id)
				require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
				require.Equal(t, "c", nodeOf(t, &e))
				require.Zero(t, e.CrashCount)
				require.Zero(t, e.RetryCount)
			}
		})
	}
}

// What nobody serves waits with its reason, and ends after executor.no_worker_deadline.
func TestWorkThatNobodyServesEnds(t *testing.T) {
	t.Parallel()
	dir := packOf(t, "t", "", files{
		"actions/gone.yaml": "name: gone\nruntime: shell\ncommand: [\"true\"]\n", "actions/stays.yaml": "name: stays\nruntime: shell\ncommand: [\"true\"]\n",
	})
	k := lab(t, func(c *node.Config) { c.NoWorkerDeadline = 2 * time.Second }, dir)
	id := k.submit("t.gone", nil, func(r *submit.Request) { r.RunAt = time.Now().Add(500 * time.Millisecond) })
	require.NoError(t, os.Remove(filepath.Join(dir, "actions", "gone.yaml")))
	_, err := k.Backend.Reload(t.Context(), "ops")
	require.NoError(t, err)
	k.until("it is handed back", func() bool {
		x, err := k.Backend.Why(t.Context(), id)
		require.NoError(t, err)
		return x.Reason == "no_node_serves_action"
	})
	require.Equal(t, messages.Completed, k.run("t.stays", nil).Status, "it holds up nobody")
	e := k.await(id)
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodeNoNodeServes, e.Error.Code)
	require.Contains(t, e.Error.Message, "this node does not serve action t.gone")
}
