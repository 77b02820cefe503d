package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/test/servers"
)

// clusterTime bounds the quick start with three nodes. On an idle machine it takes about 15 s.
const clusterTime = 200 * time.Second

var (
	clusterRoom     = regexp.MustCompile(`on database (\S+) and prefix (\S+)`)
	clusterReady    = regexp.MustCompile(`(?m)^node ([abc]) is ready at http://127\.0\.0\.1:\d+$`)
	clusterKill     = regexp.MustCompile(`killing node b \(process (\d+)\) with SIGKILL while it runs (\d+) executions`)
	clusterRescue   = regexp.MustCompile(`(?m)^\S{36} +\+([\d.]+)s +\+([\d.]+)s +completed +[ac]/go/\d+ +[2-9]$`)
	clusterOutcomes = regexp.MustCompile(`(?m)^(\d+) of (\d+) executions completed; (\d+) of them`)
	clusterNode     = regexp.MustCompile(`(?m)^([abc]) +([0-9a-f-]{36}) +(active|dead) `)
)

// TestClusterQuickStart runs the quick start with three nodes to its end, on the tests' servers. Three nodes start, one is killed
// while it works, and the others do its work. At the end nothing remains.
func TestClusterQuickStart(t *testing.T) {
	t.Parallel()
	store := servers.Postgres(t)
	rabbit, _ := servers.RabbitMQ(t)
	folder := t.TempDir()
	out := runCluster(t, folder, "TROUPE_STORE_URL="+store, "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL="+rabbit)

	require.Len(t, clusterReady.FindAllString(out, -1), 3, out)
	kill := clusterKill.FindStringSubmatch(out)
	require.NotNil(t, kill, "one node was killed:\n%s", out)
	require.NotEqual(t, "0", kill[2], "it ran something then")
	require.Regexp(t, `(?m)^running: it is running`, out, "until the lease has run out nobody can know better")
	rescues := clusterRescue.FindAllStringSubmatch(out, -1)
	require.Len(t, rescues, number(t, kill[2]), "each of its runs was started again by another node, once:\n%s", out)
	counts := clusterOutcomes.FindStringSubmatch(out)
	require.NotNil(t, counts, out)
	require.Equal(t, counts[2], counts[1], "all executions are completed")
	require.GreaterOrEqual(t, number(t, counts[2]), 27, "three echoes, and eight sleeps through each of three nodes")
	require.Equal(t, kill[2], counts[3])
	nodes := clusterNodes(out)
	require.Equal(t, []string{"a active", "b active", "b dead", "c active"}, nodes, "the killed one is back beside its dead incarnation")

	requireNothingLeft(t, folder, store, rabbit, out)
}

// runCluster runs the script to its end, with settings added to the environment, and returns its output.
func runCluster(t *testing.T, folder string, settings ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clusterTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../tools/cluster", "--once", "--troupe", binary)
	cmd.Env = append(os.Environ(), append(settings, "TMPDIR="+folder, "PATH="+searchPath)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the script then stops its nodes
	cmd.WaitDelay = patience
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// clusterNodes are the nodes in the last table of nodes, in order.
func clusterNodes(out string) []string {
	var nodes []string
	for _, n := range clusterNode.FindAllStringSubmatch(out[strings.LastIndex(out, "$ troupe nodes"):], -1) {
		nodes = append(nodes, n[1]+" "+n[3])
	}
	slices.Sort(nodes)
	return nodes
}

// requireNothingLeft checks that a quick start has left no processes, files, database or queues.
func requireNothingLeft(t *testing.T, folder, store, rabbit, out string) {
	t.Helper()
	await(t, "no process of it is left", func() bool { return len(mentioning(t, folder)) == 0 })
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
	room := clusterRoom.FindStringSubmatch(out)
	require.NotNil(t, room, out)
	databases, err := servers.Query(store, "SELECT datname FROM pg_database WHERE datname = '"+room[1]+"'")
	require.NoError(t, err)
	require.Empty(t, databases)
	settings := broker.Settings{Prefix: room[2]}
	queues := []string{settings.RequestsQueue(), settings.DeadLetterQueue()}
	for _, n := range clusterNode.FindAllStringSubmatch(out, -1) {
		incarnation, err := messages.ParseIncarnation(n[2])
		require.NoError(t, err)
		queues = append(queues, settings.PoolQueueName(n[1], "go", incarnation))
	}
	for _, name := range queues {
		there, err := servers.HasQueue(rabbit, name)
		require.NoError(t, err)
		require.False(t, there, "queue %s is left", name)
	}
}

// mentioning are the processes whose environment names the folder. All descendants of a node inherit it.
func mentioning(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	var found []string
	for _, file := range files {
		// A process that has ended, or that this user may not read, does not count.
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), folder) {
			found = append(found, file)
		}
	}
	return found
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
