package pack_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/runtime"
)

// options returns options that do not depend on the machine. options knows one user.
func options() pack.Options {
	return pack.Options{Cores: 4, User: func(text string) (messages.User, error) {
		if text == "mailer:7" {
			return messages.User{Name: "mailer", UID: 8, GID: 7}, nil
		}
		return messages.User{}, errors.New("nobody here has that name")
	}, Script: process.ScriptProblem}
}

func TestOwnPacksLoad(t *testing.T) {
	t.Parallel()
	set, err := pack.Load([]string{"../packs", "../packs/examples"}, options())
	require.NoError(t, err)
	echo, ok := set.Action("core.echo")
	require.True(t, ok)
	require.Equal(t, messages.Runtime("go"), echo.Runtime)
	require.Equal(t, "go", echo.Pool)
	for _, a := range set.Actions {
		_, ok := set.Pool(a.Pool)
		require.True(t, ok, a.Ref)
	}
}

const fullPack = `
name: mypack
version: 1.2.0
description: |
  Embeds texts.
  In two lines.
defaults: {max_retries: 2, timeout_seconds: 300, retry: {base: 2s, jitter: 0, shape: linear, on: [timeout], never_on: [2, ValueError], unclassified: final}}
pools:
  - name: models
    runtime: python
    workers: {min: 1, max: 8}
    env: {MODEL_DIR: /srv/models, BATCH: 16}
    user: mailer:7
    umask: 027
    limits: {memory: 2GiB, open_files: 256, cpu_time: 1h, processes: 10}
    recycle: {max_age: 1h, max_executions: 1000, max_memory: 1GiB}
    snapshot_every: 5
    health: {interval: 10s, timeout: 2s}
    init_timeout: 2m
  - {name: unused, runtime: go, workers: 3}
`

const fullAction = `
name: embed
description: Embeds a text.
runtime: python
entrypoint: actions/embed.py:embed
pool: models
timeout_seconds: 0.5
stall_timeout: 30s
queue_deadline: 10m
max_retries: 3
idempotent: true
notify: false
affinity: strict
on_no_worker: wait
parameters: {type: object, required: [text], properties: {text: {type: string, maxLength: 10}}}
secrets: [api_key]
retry: {multiplier: 3, max: 1m, shape: decorrelated, on: [worker_lost, 75]}
`

func TestEverythingThatCanBeSaid(t *testing.T) {
	t.Parallel()
	dir := write(t, files{"pack.yaml": fullPack, "actions/embed.yaml": fullAction, "actions/embed.py": ""})
	set, err := pack.Load([]string{dir}, options())
	require.NoError(t, err)
	require.Len(t, set.Packs, 1)
	require.Len(t, set.Pools, 1, "a pool that no action uses does not exist")

	p, ok := set.Pack("mypack")
	require.True(t, ok)
	require.Equal(t, "1.2.0", p.Version)
	require.Equal(t, []string{"mypack.embed"}, p.Actions)
	require.Len(t, p.Digest, 64)

	a, ok := set.Action("mypack.embed")
	require.True(t, ok)
	require.JSONEq(t, `{"type":"object","required":["text"],"properties":{"text":{"type":"string","maxLength":10}}}`, string(a.Parameters))
	want := messages.Action{
		Ref: "mypack.embed", Pack: "mypack", Version: "1.2.0", Description: "Embeds a text.", Runtime: "python",
		Pool: "mypack.models", Root: p.Root, Entrypoint: "actions/embed.py:embed", Timeout: 500 * time.Millisecond,
		StallTimeout: 30 * time.Second, QueueDeadline: 10 * time.Minute, MaxRetries: 3, RetriesConsented: true,
		Idempotent: true, Affinity: messages.AffinityStrict, WaitForWorker: true, Parameters: a.Parameters,
		Secrets: []string{"api_key"}, Silent: true,
		Retry:      messages.RetryPolicy{Shape: messages.ShapeDecorrelated, Base: 2 * time.Second, Multiplier: 3, Max: time.Minute, Jitter: -1},
		RetryRules: messages.RetryRules{On: []string{"worker_lost", "75"}, NeverOn: []string{"2", "ValueError"}, Unclassified: "final"},
	}
	require.Equal(t, want, *a)

	pool, ok := set.Pool("mypack.models")
	require.True(t, ok)
	require.Len(t, pool.Fingerprint, 64)
	umask := uint32(0o027)
	require.Equal(t, pack.Pool{
		Name: "mypack.models", Pack: "mypack", Runtime: "python", Root: p.Root, Min: 1, Max: 8,
		Env:  map[string]string{"MODEL_DIR": "/srv/models", "BATCH": "16"},
		User: "mailer:7", As: &messages.User{Name: "mailer", UID: 8, GID: 7}, Umask: &umask,
		Limits:  messages.Limits{Memory: 2 << 30, OpenFiles: 256, CPUTime: time.Hour, Processes: 10},
		Recycle: pack.Recycle{MaxAge: time.Hour, MaxExecutions: 1000, MaxMemory: 1 << 30},
		Health:  pack.Health{Interval: 10 * time.Second, Timeout: 2 * time.Second}, Init: 2 * time.Minute, SnapshotEvery: 5,
		Actions: []string{"mypack.embed"}, Fingerprint: pool.Fingerprint,
	}, *pool)
	require.Equal(t, []string{"BATCH=16", "MODEL_DIR=/srv/models"}, pool.Environ())
}

func TestDefaultsAndDefaultPools(t *testing.T) {
	t.Parallel()
	dir := write(t, files{
		"pack.yaml":           "name: p\nversion: '1'\n",
		"actions/py.yaml":     "name: py\nruntime: python\nentrypoint: ./lib/a.py\n",
		"actions/js.yaml":     "name: js\nruntime: node\nentrypoint: lib/a.mjs:main\n",
		"actions/sh.yaml":     "name: sh\nruntime: shell\ncommand: [echo, \"two\\nlines\"]\n",
		"actions/go.yaml":     "name: go\nruntime: go\nmax_retries: 0\n",
		"actions/own.yaml":    "name: own\nruntime: process\ncommand: [bin/own, -v]\n",
		"actions/.hidden.yml": "not read",
		"lib/a.py":            "", "lib/a.mjs": "", "bin/own": "#!",
	})
	set, err := pack.Load([]string{dir}, pack.Options{Cores: 3, MaxRetries: 5, Workers: map[messages.Runtime]int{"node": 9}})
	require.NoError(t, err)
	var pools []string
	workers := map[string]int{}
	for _, p := range set.Pools {
		require.Equal(t, p.Min, p.Max)
		pools, workers[p.Name] = append(pools, p.Name), p.Min
	}
	require.Equal(t, []string{"go", "node", "p.own", "python", "shell"}, pools)
	require.Equal(t, map[string]int{"go": 128, "node": 9, "p.own": 3, "python": 3, "shell": 6}, workers)

	entrypoint := func(ref string) string { a, _ := set.Action(ref); return a.Entrypoint }
	require.Equal(t, "lib/a.py:run", entrypoint("p.py"))
	require.Equal(t, "lib/a.mjs:main", entrypoint("p.js"))
	require.Equal(t, "p.go", entrypoint("p.go"))

	own, _ := set.Pool("p.own")
	require.Equal(t, []string{"bin/own", "-v"}, own.Command)
	require.Equal(t, []string{own.Root + "/bin/own", "-v"}, runtime.Argv(own.Root, own.Command))
	sh, _ := set.Action("p.sh")
	require.Equal(t, []string{"echo", "two\nlines"}, runtime.Argv(sh.Root, sh.Command))

	py, _ := set.Action("p.py")
	require.Equal(t, 5, py.MaxRetries)
	require.False(t, py.RetriesConsented, "the configuration's default is no consent to repeat")
	goAction, _ := set.Action("p.go")
	require.Equal(t, 0, goAction.MaxRetries)
	require.False(t, goAction.RetriesConsented)
	require.Zero(t, py.Timeout)
	_, ok := set.Action("p.none")
	require.False(t, ok)
}

func TestParametersThatNoVariableCanHaveAreWarnedOf(t *testing.T) {
	t.Parallel()
	schema := "parameters: {type: object, properties: {dry-run: {}, name: {}, Name: {}, 1st: {}, ok_1: {}}}\n"
	dir := write(t, files{
		"pack.yaml":       "name: p\nversion: '1'\n",
		"actions/sh.yaml": "name: sh\nruntime: shell\ncommand: [echo]\n" + schema,
		"actions/py.yaml": "name: py\nruntime: python\nentrypoint: a.py\n" + schema, // has no variables
		"a.py":            "",
	})
	set, err := pack.Load([]string{dir}, pack.Options{})
	require.NoError(t, err)
	at := " (" + dir + "/actions/sh.yaml)"
	noName := func(name string) string {
		return "pack p: action sh: no variable can have the name of parameter \"" + name + "\": it is on stdin alone; name it with letters, digits and _" + at
	}
	require.Equal(t, []string{
		noName("1st"), noName("dry-run"),
		"pack p: action sh: parameters \"Name\" and \"name\" differ in case alone: the variable TROUPE_PARAM_NAME has the first, the second is on stdin alone; rename one" + at,
	}, set.Warnings)
}

func TestActionsOfOneProcessPoolShareItsProgram(t *testing.T) {
	t.Parallel()
	set, err := pack.Load([]string{write(t, files{
		"pack.yaml": "name: p\nversion: '1'\npools:\n  - {name: a, runtime: process, command: [serve, -a]}\n" +
			"  - {name: b, runtime: process}\n",
		"actions/1.yaml": "name: one\nruntime: process\npool: a\n",
		"actions/2.yaml": "name: two\nruntime: process\npool: a\ncommand: [serve, -a]\n",
		"actions/3.yaml": "name: three\nruntime: process\npool: b\ncommand: [other]\n",
	})}, options())
	require.NoError(t, err)
	one, _ := set.Action("p.one")
	require.Equal(t, []string{"serve", "-a"}, one.Command)
	b, _ := set.Pool("p.b")
	require.Equal(t, []string{"other"}, b.Command)
}

func TestPacksAreFoundHoweverTheyAreReached(t *testing.T) {
	t.Parallel()
	dir := write(t, files{
		"real/one/pack.yaml": "name: one\nversion: '1'\n", "real/one/actions/a.yaml": "name: a\nruntime: go\n",
		"real/two/pack.yaml": "name: two\nversion: '1'\n", "real/two/actions/a.yaml": "name: a\nruntime: go\n",
		"real/notes/README": "no pack",
	})
	link(t, dir+"/real", dir+"/link")
	link(t, dir+"/real/one", dir+"/packs/one")
	set, err := pack.Load([]string{dir + "/real", dir + "/link/one", dir + "/packs", dir + "/real/one/"}, options())
	require.NoError(t, err)
	require.Len(t, set.Packs, 2)
	one, _ := set.Pack("one")
	require.NotContains(t, one.Root, "link")
}

func TestNothingToLoadIsAnEmptySet(t *testing.T) {
	t.Parallel()
	set, err := pack.Load(nil, options())
	require.NoError(t, err)
	require.Empty(t, set.Actions)
}
