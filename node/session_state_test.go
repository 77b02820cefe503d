package node_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// deadly is a module whose hook ends the process when it is given a state back, as a fault in a loader would.
const deadly = `import os

def snapshot(state):
    return dict(state)

def restore(saved):
    os._exit(9)

def count(params, ctx):
    if ctx.session is None:
        return {}
    ctx.session.state["n"] = ctx.session.state.get("n", 0) + 1
    return {"count": ctx.session.state["n"], "lost": ctx.session.lost}
`

// A stored state that ends each worker that it is given back to is set aside after three. Its session goes on without it, others of the pool
// are not kept waiting, and no retry is spent. The state is shown, named by a finding, and can be dropped.
func TestAStateThatEndsWorkersIsSetAside(t *testing.T) {
	t.Parallel()
	k := lab(t, patientKeeps, packOf(t, "py", "pools:\n  - {name: lab, runtime: python, workers: 1, snapshot_every: 1}\n", files{
		"deadly.py": deadly, "actions/count.yaml": "name: count\nruntime: python\npool: lab\nentrypoint: deadly.py:count\n",
	}))
	s := session("s", "")
	require.Equal(t, 1, result[counted](t, k.run("py.count", nil, s)).Count)
	k.kept("s", 1)
	k.kill()
	before := k.worker("py.lab", 0).Generation
	id := k.submit("py.count", nil, s)
	k.until("why says what the state has done", func() bool {
		x, err := k.Backend.Why(t.Context(), id)
		require.NoError(t, err)
		return strings.Contains(x.Message, "of 3 times without an answer, last to worker")
	})
	require.Equal(t, messages.Completed, k.run("py.count", nil).Status, "a neighbour has the worker meanwhile")
	e := k.await(id)
	c := result[counted](t, e)
	require.Equal(t, []any{1, true}, []any{c.Count, c.Lost}, "it has begun anew, and is told so")
	require.EqualValues(t, before+3, k.worker("py.lab", 0).Generation, "three workers ended")
	require.Zero(t, k.worker("py.lab", 0).Restarts, "none is counted")
	require.Zero(t, e.CrashCount)
	require.Zero(t, e.RetryCount)
	require.Equal(t, messages.Completed, k.run("py.count", nil).Status)

	list, err := k.Backend.SessionStates(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []any{"py.lab", "s", 3}, []any{list[0].Pool, list[0].Session, list[0].Tries})
	v, err := k.Backend.SessionState(t.Context(), "py.lab", "s")
	require.NoError(t, err)
	require.Contains(t, string(v.Aside.State), `"n":1`)
	require.Contains(t, k.scrape(), `troupe_session_states_aside{pool="py.lab"} 1`)
	k.until("a finding names the session", func() bool {
		for _, f := range k.Backend.Findings().Findings {
			if f.Name == "session_state_broken" && f.Subject == "py.lab" {
				require.Contains(t, f.Message, "set aside: s")
				return true
			}
		}
		return false
	})
	require.NoError(t, k.Backend.DropSessionState(t.Context(), "py.lab", "s", "ops"))
	v, err = k.Backend.SessionState(t.Context(), "py.lab", "s")
	if err == nil { // a newer state may be stored by now
		require.Nil(t, v.Aside)
	}
	require.Contains(t, k.scrape(), `troupe_session_states_aside{pool="py.lab"} 0`)
}
