package node_test

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/test/servers"
)

// waitsFor waits until the node is not ready for a reason with the text in it, and a submission is refused with it.
func waitsFor(k *kit, text string) {
	k.t.Helper()
	require.Eventually(k.t, func() bool {
		r := k.Ready(k.t.Context())
		_, err := k.Submit(k.t.Context(), []submit.Request{ask("t.echo", nil)})
		var p *messages.Problem
		return !r.Ready && strings.Contains(strings.Join(r.WaitsFor, "; "), text) && errors.As(err, &p) &&
			p.Code == messages.CodeStoreUnavailable && strings.Contains(p.Message, text)
	}, patience, 50*time.Millisecond)
}

// works waits until the node is ready, and has it run something.
func works(k *kit) {
	k.t.Helper()
	require.Eventually(k.t, func() bool { return k.Ready(k.t.Context()).Ready }, patience, 20*time.Millisecond)
	submitted, err := k.Submit(k.t.Context(), []submit.Request{ask("t.echo", nil)})
	require.NoError(k.t, err)
	require.Equal(k.t, messages.Completed, k.await(submitted[0].Execution.ID).Status)
}

// echoes handles t.echo.
func echoes(c *node.Config) {
	handle(map[string]messages.Handler{"echo": func(context.Context, *messages.Task) (any, error) { return "ok", nil }})(c)
}

// A server that answers and takes no writes is away: the node is not ready, and says why to those who submit.
func TestAServerThatTakesNoWritesIsAway(t *testing.T) {
	t.Parallel()
	server := servers.PrivatePostgres(t, servers.PostgresOptions{Unsafe: true})
	k := lab(t, func(c *node.Config) { paired(c, server.URL); echoes(c) }, goPack(t, map[string]string{"echo": ""}))
	works(k)
	writes := func(statement string) {
		require.NoError(t, servers.Execute(server.URL+"&default_transaction_read_only=off", statement))
		require.NoError(t, servers.Execute(server.URL, "SELECT pg_reload_conf()"))
	}
	writes("ALTER SYSTEM SET default_transaction_read_only = on")
	waitsFor(k, "may only read")
	writes("ALTER SYSTEM RESET default_transaction_read_only")
	works(k)
}

// Another program that keeps the embedded store's file to itself makes it one that takes no writes.
func TestALockedFileIsAway(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) { c.HeartbeatInterval = time.Second; echoes(c) }, goPack(t, map[string]string{"echo": ""}))
	works(k)
	files, err := filepath.Glob(filepath.Join(k.data, "*.db"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	other := exec.Command("python3", "-c", `import sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()`, files[0])
	in, err := other.StdinPipe()
	require.NoError(t, err)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "locked\n", said)
	waitsFor(k, "another program may have locked its file")
	require.NoError(t, in.Close())
	require.NoError(t, other.Wait())
	works(k)
}
