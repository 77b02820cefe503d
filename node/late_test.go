package node_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const lateActions = `
export const late = () => { setTimeout(() => { throw new RangeError("late"); }, 1); return "fine"; };
export const floods = () => { const t = setInterval(() => { throw new Error("again"); }, 1); setTimeout(() => clearInterval(t), 300); };
export const wait = ({ ms }) => new Promise((done) => setTimeout(() => done("waited"), ms));
export const count = (params, ctx) => [(ctx.session.state.n = (ctx.session.state.n ?? 0) + 1), ctx.session.lost];
`

func latePack(t *testing.T) string {
	t.Helper()
	f := files{"a.mjs": lateActions}
	for _, name := range []string{"late", "floods", "wait", "count"} {
		f["actions/"+name+".yaml"] = "name: " + name + "\nruntime: node\npool: js\nentrypoint: a.mjs:" + name + "\n"
	}
	return packOf(t, "late", "pools: [{name: js, runtime: node, workers: 1}]\n", f)
}

// late returns the late failures of an execution, once there are some.
func (k *kit) late(id messages.ExecutionID) (found []store.Event) {
	k.t.Helper()
	k.until("a late failure of "+id.String(), func() bool {
		events, err := k.Events(k.t.Context(), id)
		require.NoError(k.t, err)
		for _, e := range events {
			if e.Kind == store.LateFailureKind {
				found = append(found, e)
			}
		}
		return len(found) > 0
	})
	return found
}

// What a timer of an ended run throws is told on that run. The next run, and the session of another, do not feel it.
func TestALateFailureIsToldOnItsRun(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, latePack(t))
	s := session("s", messages.AffinityStrict)
	require.JSONEq(t, "[1,false]", string(k.run("late.count", nil, s).Result))
	before := k.ready("late.js", 0, 0)
	for range 3 {
		first := k.run("late.late", nil)
		next := k.run("late.wait", object{"ms": 20})
		require.Equal(t, messages.Completed, next.Status)
		require.Zero(t, next.CrashCount)
		e := k.late(first.ID)[0]
		require.Equal(t, "RangeError: late", e.Reason)
		require.EqualValues(t, 1, e.Attempt)
		require.Equal(t, string(before.ID), e.Worker)
	}
	require.JSONEq(t, "[2,false]", string(k.run("late.count", nil, s).Result))
	require.Equal(t, before.Generation, k.worker("late.js", 0).Generation)
}

// A worker whose ended runs fail without end is replaced after its run, and its sessions go on.
func TestAWornWorkerIsReplacedWithItsSessions(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, latePack(t))
	s := session("s", messages.AffinityStrict)
	require.JSONEq(t, "[1,false]", string(k.run("late.count", nil, s).Result))
	before := k.ready("late.js", 0, 0)
	flood := k.run("late.floods", nil)
	run := k.run("late.wait", object{"ms": 400})
	require.Equal(t, messages.Completed, run.Status)
	require.Zero(t, run.CrashCount)
	k.late(flood.ID)
	k.until("the worker is replaced", func() bool {
		w := k.worker("late.js", 0)
		return w.Generation > before.Generation && w.State == "ready"
	})
	require.JSONEq(t, "[2,false]", string(k.run("late.count", nil, s).Result))
	require.True(t, strings.Contains(k.log.String(), "worker is to be replaced"))
}
