package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSteerAnotherNodeFromTheShell asks one node about the workers and runs of another, and drains the other by it. The nodes
// reach each other with the default settings of peers.
func TestSteerAnotherNodeFromTheShell(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	right := v.start(t, "right", sharedConfig, "testdata/theatre")
	left := v.start(t, "left", sharedConfig)
	await(t, "the nodes reach each other", func() bool {
		return strings.Contains(left.prints(t, "nodes"), " reached") && strings.Contains(right.prints(t, "nodes"), " reached")
	})
	e := left.runs(t, "core.echo", object{"a": 1}) // a run without output is stored by the usual statement
	require.Equal(t, "1", e.text("result", "a"), "%v", e)
	const worker = "right/theatre.talker/0"
	require.Regexp(t, `(?m)^right/go/0 `, left.prints(t, "workers"))
	require.NotContains(t, left.prints(t, "workers", "--node", "right"), "left/")
	require.Regexp(t, `(?m)^go +go +ok +2 +2 `, left.prints(t, "pools"))
	require.Regexp(t, `(?m)^go +go +ok +1 +1 `, left.prints(t, "pools", "--node", "left"))
	require.Regexp(t, `initializing → ready +init_complete`, left.prints(t, "worker", "get", worker))
	require.Contains(t, left.prints(t, "worker", "probe", worker), "healthy")
	left.prints(t, "worker", "cordon", worker)
	require.Regexp(t, `(?m)^`+worker+` .*cordoned`, right.prints(t, "workers", "--pool", "theatre.talker"))
	left.prints(t, "uncordon", "worker", worker)
	before := left.get(t, "/api/v1/workers/"+worker)
	left.prints(t, "worker", "kill", worker)
	await(t, "the killed worker is back", func() bool {
		w := left.get(t, "/api/v1/workers/"+worker)
		return w.text("state") == "ready" && w.text("pid") != before.text("pid")
	})

	id := right.prints(t, "submit", "theatre.act", "lines:=40", "pause:=0.25")
	cmd := exec.Command(binary, "logs", "-f", id)
	cmd.Env = []string{"TROUPE_SERVER=" + left.url, "HOME=" + t.TempDir()}
	var out, errs logBook
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	await(t, "the first line is seen", func() bool { return strings.Contains(out.String(), "line 0\n") })
	require.NotContains(t, out.String(), "line 39\n", "it is seen while the run goes on")
	require.Contains(t, left.prints(t, "logs", id), "line 0")
	require.Contains(t, left.prints(t, "drain", "right"), "node right drains")
	require.NoError(t, cmd.Wait(), errs.String())
	said := out.String()
	if strings.Contains(errs.String(), "may be missing above") { // the node ended before the client had read everything; the store has it
		said = left.prints(t, "logs", id)
	}
	require.Contains(t, said, "line 39\n")
	require.Contains(t, out.String(), `{"line":39}`)
	require.Contains(t, errs.String(), "completed")
	require.NoError(t, right.ended(), right.log.tail(20))
	r := left.troupe(t, "drain", "right")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "node right is dead")
	require.NoError(t, left.stop())
}
