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

func TestMemoryAndCores(t *testing.T) {
	t.Parallel()
	require.Equal(t, ok("no cgroup: no limit of memory; no limit of the heap; 8 cores used, no quota"), memoryAndCores(process.Bounds{}, "", 8))
	b := process.Bounds{Version: "v2", Memory: 128 << 20, MemoryAt: "/sys/fs/cgroup/a", Cores: 1.5, CoresAt: "/sys/fs/cgroup/b"}
	require.Equal(t, ok("cgroup v2: 128 MiB of memory by /sys/fs/cgroup/a; the heap's limit is 73 MiB; 2 cores used, a quota of 1.5 by /sys/fs/cgroup/b"),
		memoryAndCores(b, "", 2))
	require.Contains(t, memoryAndCores(b, "100MiB", 2).Detail, "; the heap's limit is GOMEMLIMIT=100MiB;")
	b.Memory = 64 << 20
	require.Equal(t, "warn", memoryAndCores(b, "", 2).State)
}
