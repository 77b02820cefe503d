package node_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/runtime"
)

// perl is a sixth runtime: a long-lived interpreter with a program of its own, which is what an SDK is.
func perl(program string) runtime.Spec {
	return runtime.Spec{
		Name: "perl", Lifetime: runtime.LongLived, Code: runtime.File, Example: "work.pl:run", Process: "perl process",
		Workers: runtime.Count{PerCore: 1}, WorkersMax: 100,
		Interpreter: runtime.Interpreter{Title: "Perl", Default: "perl"},
		Start: func(l runtime.Launch) runtime.Program {
			return runtime.Program{Argv: []string{l.Interpreter, program}, Env: []string{"PERL_HASH_SEED=1"}}
		},
	}
}

// script is a seventh: an interpreter that is started for each execution with the action's file.
var script = runtime.Spec{
	Name: "script", Lifetime: runtime.OneShot, Code: runtime.File, Example: "work.sh", SharedQueue: true,
	Workers: runtime.Count{Fixed: 1}, WorkersMax: 100,
	Interpreter: runtime.Interpreter{Title: "Bourne shell", Default: "sh"},
	Start: func(l runtime.Launch) runtime.Program {
		file, function, _ := strings.Cut(l.Entrypoint, ":")
		return runtime.Program{Argv: []string{l.Interpreter, filepath.Join(l.Root, file), function}, Env: []string{"GREETING=hello"}}
	},
}

// A new runtime is one Spec: its actions are read from packs, its pools get workers and a queue, its programs run and are
// replaced, with nothing else changed.
func TestARuntimeIsOneSpec(t *testing.T) {
	t.Parallel()
	worker, err := filepath.Abs("../sdk/examples/worker.pl")
	require.NoError(t, err)
	pack := packOf(t, "more", "pools:\n  - {name: small, runtime: perl, workers: 1}\n", files{
		"work.pl":           "1;\n",
		"work.sh":           "read -r line\necho \"$GREETING $1 $TROUPE_PARAM_NAME\"\n",
		"actions/deep.yaml": "name: deep\nruntime: perl\npool: small\nentrypoint: work.pl:anything\n",
		"actions/flat.yaml": "name: flat\nruntime: perl\nentrypoint: work.pl\n",
		"actions/once.yaml": "name: once\nruntime: script\nentrypoint: work.sh:greet\n",
	})
	k := lab(t, func(c *node.Config) {
		c.Runtimes = append(runtime.All(), perl(worker), script)
		c.Workers["perl"] = 2
	}, pack)

	deep := result[struct{ Parameters object }](t, k.run("more.deep", object{"x": 1}))
	require.Equal(t, object{"x": 1.0}, deep.Parameters)
	result[object](t, k.run("more.flat", object{}, session("s", messages.AffinityStrict)))
	require.Equal(t, "hello greet you", result[string](t, k.run("more.once", object{"name": "you"})))

	require.Equal(t, messages.Runtime("perl"), k.pool("more.small").Runtime)
	require.Equal(t, 2, k.pool("perl").Workers)
	require.Equal(t, 1, k.pool("script").Workers)
	first := k.ready("perl", 0, 0)
	require.Positive(t, first.Pid)
	require.NoError(t, k.KillWorker(t.Context(), first.ID))
	require.NotEqual(t, first.Pid, k.ready("perl", 0, first.Generation).Pid)
}

func TestAPackOfARuntimeThatTheNodeDoesNotHave(t *testing.T) {
	t.Parallel()
	pack := packOf(t, "more", "", files{"work.pl": "1;\n", "actions/a.yaml": "name: a\nruntime: perl\nentrypoint: work.pl\n"})
	cfg, _ := short(t, t.TempDir(), pack)
	cfg.Runtimes = append(runtime.All(), script)
	n, err := node.New(cfg)
	require.NoError(t, err)
	require.ErrorContains(t, n.Start(t.Context()), `unknown runtime "perl": want python, node, process, shell, go or script`)

	cfg.Runtimes = runtime.Set{script}
	_, err = node.New(cfg)
	require.ErrorContains(t, err, "runtimes: one must run handlers, 0 do")
}
