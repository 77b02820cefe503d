package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/process"
)

func TestContainment(t *testing.T) {
	t.Parallel()
	c := process.Containment{End: "e", Memory: "m", Processes: "p"}
	require.Equal(t, ok("no controller is delegated; end by e; limits.memory by m; limits.processes by p"), containment(c))
	c.Delegated, c.Reason = []string{"memory", "pids"}, "no hierarchy"
	f := containment(c)
	require.Equal(t, "ok", f.State)
	require.Equal(t, "delegated: memory, pids; end by e; limits.memory by m; limits.processes by p", f.Detail)
	require.Equal(t, "no hierarchy; docs/operations.md says how to delegate one", f.Advice)
}
