package node_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor/node"
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
		"actions/hold.yaml": "name: hold\nruntime: shell\npool: p\ncommand: [sh, -c, 'while [ -e hold ]; do sleep 0.01; done']\n",
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
	k.becomes(held, messages.Running)
	k.until("the program of the first value runs", func() bool { return shown("s.show") == `["[redacted]","`+second+`"]` })
	put(second)
	require.Equal(t, messages.Completed, k.run("s.show", nil).Status)
	require.Equal(t, `["[redacted]","[redacted]"]`, shown("s.show"), "a program with the first value runs")
	k.remove("hold")
	require.Equal(t, messages.Completed, k.await(held).Status)
	require.Equal(t, `["`+first+`","[redacted]"]`, shown("s.show"))
}
