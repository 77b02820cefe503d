package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhyIsItWaiting makes each reason for waiting that a single node has, and asks why.
func TestWhyIsItWaiting(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig})
	why := func(id, reason, says string) {
		t.Helper()
		var x object
		await(t, "the reason is "+reason, func() bool {
			x = n.get(t, "/api/v1/executions/"+id+"/why")
			return x.text("reason") == reason
		})
		require.Contains(t, x.text("message"), says)
		require.Contains(t, n.prints(t, "why", id), says)
	}
	id := n.submit(t, "core.echo", nil, object{"run_at": "2099-01-01T00:00:00Z"}).text("id")
	why(id, "not_due", "it waits for its time")

	busy := n.submit(t, "theatre.half", object{"do": "half"}).text("id") // it stays busy for as long as a frame may take
	why(busy, "running", "it is running")
	second := n.submit(t, "theatre.half", nil).text("id")
	why(second, "workers_busy", "every worker of the pool that takes work is busy")

	session := object{"session": "s"}
	n.runs(t, "theatre.remember", object{"line": "a"}, session)
	acting := n.submit(t, "theatre.act", object{"lines": 600, "pause": 0.1}, session).text("id")
	next := n.submit(t, "theatre.act", object{"lines": 1}, session).text("id")
	last := n.submit(t, "theatre.act", object{"lines": 1}, session).text("id")
	why(last, "session_order", "an earlier execution of its session must end first")
	n.prints(t, "cancel", acting)
	require.Equal(t, "completed", n.finish(t, next).text("status"))
	require.Equal(t, "completed", n.finish(t, last).text("status"))

	n.prints(t, "cordon", "pool", "theatre.talker")
	cordoned := n.submit(t, "theatre.talker", nil).text("id")
	why(cordoned, "workers_cordoned", "uncordon one")

	patient := n.submit(t, "theatre.patient", nil).text("id")
	why(patient, "pool_broken", "the pool is broken: all its workers fail to start")

	retried := n.runs(t, "theatre.prompt", object{"status": 75}, object{"max_retries": 1})
	why(retried.text("id"), "ended", "t has ended: failed")
	waiting := n.submit(t, "core.echo", nil, object{"run_at": "2099-01-01T00:00:00Z"}).text("id")
	n.prints(t, "cancel", waiting)
	why(waiting, "ended", "t has ended: cancelled")
}
