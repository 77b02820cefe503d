package node_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
)

// Secrets reach a pool's commands from a file and from the node's environment, leave that, and are seen nowhere: not in output,
// results of shell, errors or parameters. A new value in the file is the next run's.
func TestSecretsReachWorkersAndNobodyElse(t *testing.T) {
	t.Parallel()
	const variable, kept = "TROUPE_TEST_OF_SECRETS", "kept-in-the-environment"
	require.NoError(t, os.Setenv(variable, kept)) //nolint:usetesting // of this test alone, which runs beside others
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("first-value-of-it\n"), 0o600))
	var forgotten []string
	k := lab(t, func(c *node.Config) {
		c.ForgetEnv = func(names []string) error {
			forgotten = append(forgotten, names...)
			return os.Unsetenv(variable)
		}
	}, packOf(t, "s", "pools:\n  - name: p\n    runtime: shell\n    workers: 1\n    secrets: {API_KEY: {file: "+key+"}, TOKEN: {env: "+variable+"}}\n", files{
		"actions/show.yaml": "name: show\nruntime: shell\npool: p\ncommand: [sh, -c, 'echo \"$API_KEY,$TOKEN,${#API_KEY},${#TOKEN}\"']\n",
		"actions/fail.yaml": "name: fail\nruntime: shell\npool: p\ncommand: [sh, -c, 'echo \"bad $API_KEY\" >&2; exit 3']\n",
	}))
	require.Equal(t, []string{variable}, forgotten)
	_, set := os.LookupEnv(variable)
	require.False(t, set)
	e := k.run("s.show", object{"key": "first-value-of-it", "n": 1})
	require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
	require.Equal(t, `"[redacted],[redacted],17,23"`, string(e.Result))
	require.JSONEq(t, `{"key":"[redacted]","n":1}`, string(k.Redact("s.show", e.Parameters)))
	out, err := k.Output(t.Context(), e.ID)
	require.NoError(t, err)
	require.NotContains(t, string(out.Stdout), "first-value")
	e = k.run("s.fail", nil)
	require.Equal(t, "bad [redacted]\n", e.Error.Stderr)

	require.NoError(t, os.WriteFile(key, []byte("the-second"), 0o600))
	require.Equal(t, `"[redacted],[redacted],10,23"`, string(k.run("s.show", nil).Result))
	require.NoError(t, os.WriteFile(key, []byte("short"), 0o600))
	e = k.run("s.show", nil)
	require.Equal(t, messages.Failed, e.Status)
	require.Contains(t, e.Error.Message, "pool s.p: secret API_KEY: it has 5 bytes")
	require.NoError(t, os.Remove(key))
	require.Contains(t, k.run("s.show", nil).Error.Message, "no such file")
	require.NotContains(t, k.log.String(), kept)
	require.NotContains(t, k.log.String(), "the-second")
}

// A node that is fenced comes back with the secrets of its environment, which has them no more: those of pools and of webhooks.
func TestSecretsOutliveAnIncarnation(t *testing.T) {
	t.Parallel()
	const pool, hook = "TROUPE_TEST_OF_A_POOL", "TROUPE_TEST_OF_A_WEBHOOK"
	require.NoError(t, os.Setenv(pool, "kept-in-the-environment"))                                    //nolint:usetesting // of this test alone, which runs beside others
	require.NoError(t, os.Setenv(hook, "whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 24)))) //nolint:usetesting // as above
	f := &fleet{}
	keeper, log := keep(t, among(f, func(c *node.Config) {
		c.Webhooks.Secrets = []string{"main=env:" + hook}
		c.ForgetEnv = func(names []string) (err error) {
			for _, name := range names {
				err = errors.Join(err, os.Unsetenv(name))
			}
			return err
		}
	}), packOf(t, "s", "pools:\n  - {name: p, runtime: shell, workers: 1, secrets: {TOKEN: {env: "+pool+"}}}\n", files{
		"actions/show.yaml": "name: show\nruntime: shell\npool: p\ncommand: [sh, -c, 'echo \"${#TOKEN}\"']\n",
	}))
	_, set := os.LookupEnv(hook)
	require.False(t, set)
	first := keeper.Node().Incarnation()
	require.NoError(t, keeper.Node().Store().SetNode(t.Context(), first, store.NodeDead))
	k := &kit{Node: keeper.Node(), Backend: keeper.Backend(), t: t, log: log}
	k.until("a new incarnation is ready", func() bool {
		return keeper.Node().Incarnation() != first && readyz(t, keeper.Addr()).Ready
	})
	k.Node, k.Backend = keeper.Node(), keeper.Backend()
	e := k.run("s.show", nil)
	require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
	require.Equal(t, "23", string(e.Result))
}

// Parameters are masked by the values that workers have: by those of a worker that still runs as long as it does, by those that
// were read last, and not by those of a reload that was refused.
func TestParametersAreMaskedByTheValuesInUse(t *testing.T) {
	t.Parallel()
	const first, second = "the-first-value", "the-second-value"
	key := filepath.Join(t.TempDir(), "key")
	put := func(value string) { require.NoError(t, os.WriteFile(key, []byte(value), 0o600)) }
	pools := "pools:\n  - {name: p, runtime: shell, workers: 2, secrets: {API_KEY: {file: " + key + "}}}\n" +
		"  - {name: w, runtime: python, workers: 1, secrets: {API_KEY: {file: " + key + "}}}\n"
	put(first)
	dir := packOf(t, "s", pools, files{
		"actions/hold.yaml": "name: hold\nruntime: shell\npool: p\ncommand: [sh, -c, 'echo begun >held; while [ -e hold ]; do sleep 0.01; done']\n",
		"actions/show.yaml": "name: show\nruntime: shell\npool: p\ncommand: ['true']\n",
		"actions/say.yaml":  "name: say\nruntime: python\npool: w\nentrypoint: say.py:say\n",
		"say.py":            "def say(params):\n    return 1\n",
	})
	k := lab(t, nil, dir)
	shown := func(action string) string {
		return string(k.Redact(action, []byte(`["`+first+`","`+second+`"]`)))
	}
	k.ready("s.w", 0, 0)
	require.Equal(t, `["[redacted]","`+second+`"]`, shown("s.say"))

	put(second)
	writeFiles(t, dir, files{"say.py": brokenCode})
	_, err := k.Node.Reload(t.Context(), "ann")
	require.ErrorContains(t, err, "a worker of pool s.w does not start")
	require.Equal(t, `["[redacted]","`+second+`"]`, shown("s.say"), "the values of a trial are not taken")

	writeFiles(t, dir, files{"say.py": "def say(params):\n    return 'again'\n"})
	_, err = k.Node.Reload(t.Context(), "ann")
	require.NoError(t, err)
	k.ready("s.w", 0, 1)
	k.until("the old worker is gone", func() bool { return shown("s.say") == `["`+first+`","[redacted]"]` })

	put(first)
	k.write("hold")
	held := k.submit("s.hold", nil)
	k.until("the program of the first value runs", func() bool { return len(k.lines("held")) > 0 })
	require.Equal(t, `["[redacted]","`+second+`"]`, shown("s.show"))
	put(second)
	require.Equal(t, messages.Completed, k.run("s.show", nil).Status)
	require.Equal(t, `["[redacted]","[redacted]"]`, shown("s.show"), "a program with the first value runs")
	k.remove("hold")
	require.Equal(t, messages.Completed, k.await(held).Status)
	require.Equal(t, `["`+first+`","[redacted]"]`, shown("s.show"))
}

// A secret can come as a file that its worker alone may read: it is gone with the worker, with the node, and after a crash with the
// node's next start; what workers write of it is masked like any other.
func TestSecretsAsFiles(t *testing.T) {
	t.Parallel()
	const value = "kept in a file of its own"
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(value+"\n"), 0o600))
	secret := ", secrets: {API_KEY: {file: " + key + ", as: file}}}\n"
	dir := packOf(t, "s", "pools:\n  - {name: p, runtime: shell, workers: 1"+secret+"  - {name: w, runtime: python, workers: 1"+secret, files{
		"actions/show.yaml": "name: show\nruntime: shell\npool: p\n" +
			"command: [sh, -c, 'echo \"$API_KEY_FILE ${API_KEY-none} $(stat -c %a,%u \"$API_KEY_FILE\") $(wc -c <\"$API_KEY_FILE\")\"; cat \"$API_KEY_FILE\"']\n",
		"actions/read.yaml": "name: read\nruntime: python\npool: w\nentrypoint: read.py:read\n",
		"read.py": `import os, sys

def read(params):
    path = os.environ["API_KEY_FILE"]
    value = open(path).read()
    print("it is", value)
    if params.get("fail"):
        raise ValueError("not with " + value)
    return {"path": path, "length": len(value), "mode": "%o" % os.stat(path).st_mode, "variable": "API_KEY" in os.environ}
`,
	})
	data := t.TempDir()
	k := boot(t, data, nil, dir)
	shown := strings.Fields(result[string](t, k.run("s.show", nil)))
	require.Equal(t, []string{"none", fmt.Sprintf("400,%d", os.Geteuid()), "25", "[redacted]"}, shown[1:])
	require.NoFileExists(t, shown[0], "the run has ended")

	e := k.run("s.read", nil)
	read := result[map[string]any](t, e)
	require.Equal(t, map[string]any{"path": read["path"], "length": 25.0, "mode": "100400", "variable": false}, read)
	out, err := k.Output(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, "it is [redacted]\n", string(out.Stdout))
	require.Equal(t, "ValueError: not with [redacted]", k.run("s.read", object{"fail": true}).Error.Message)
	require.JSONEq(t, `"[redacted]"`, string(k.Redact("s.read", []byte(`"`+value+`"`))))

	path := read["path"].(string)
	held, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, value, string(held))
	worker := k.worker("s.w", 0)
	require.NoError(t, k.KillWorker(t.Context(), worker.ID))
	k.ready("s.w", 0, worker.Generation)
	require.NoFileExists(t, path, "the worker has ended")
	shared := filepath.Dir(filepath.Dir(path))
	require.NoError(t, k.stop())
	require.NoDirExists(t, shared)

	left := filepath.Join(shared, "of-a-crash")
	require.NoError(t, os.MkdirAll(left, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(left, "API_KEY"), []byte(value), 0o400))
	k = boot(t, data, nil, dir)
	require.NoDirExists(t, left)
	require.NoError(t, k.stop())
}

// A folder that somebody else has put where the files go is not used.
func TestAFolderOfSecretsThatIsNotOurs(t *testing.T) {
	t.Parallel()
	data, first, second := t.TempDir(), t.TempDir(), t.TempDir()
	path, err := node.SharedFolder(data, "secrets", 0o711, first, second)
	require.NoError(t, err)
	require.Equal(t, first, filepath.Dir(path))
	again, err := node.SharedFolder(data, "secrets", 0o711, first, second)
	require.NoError(t, err)
	require.Equal(t, path, again)
	require.NoError(t, os.Chmod(path, 0o777))
	other, err := node.SharedFolder(data, "secrets", 0o711, first, second)
	require.NoError(t, err)
	require.Equal(t, second, filepath.Dir(other))
	require.NoError(t, os.RemoveAll(other))
	require.NoError(t, os.Symlink(t.TempDir(), other))
	_, err = node.SharedFolder(data, "secrets", 0o711, first, second)
	require.ErrorContains(t, err, path+": somebody else has made it, or may write to it: remove it")
	require.ErrorContains(t, err, other+": somebody else")
}
