package sdk_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/packs"
	"github.com/troupe-run/troupe/sdk"
	"github.com/troupe-run/troupe/sdk/internal/drive"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// suiteTime bounds a suite in another language; it takes seconds on an idle machine.
const suiteTime = 3 * time.Minute

// TestSuitesOfTheOtherLanguages runs the tests that are written in Python and JavaScript, so that one command runs all.
func TestSuitesOfTheOtherLanguages(t *testing.T) {
	if testing.Short() {
		t.Skip("whole suites of other languages: not with -short")
	}
	t.Parallel()
	suites := []struct {
		name, dir, program string
		args               []string
	}{
		{"python sdk", "python", "python3", []string{"-m", "unittest", "discover", "-s", "tests"}},
		{"node sdk", "node", "node", []string{"--test", "tests/"}},
		{"embeddings pack", "../packs/examples/embeddings", "python3", []string{"-m", "unittest", "discover", "-s", "tests", "-t", "."}},
	}
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), suiteTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, s.program, s.args...)
			cmd.Dir = s.dir
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			cmd.WaitDelay = time.Second
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}

func TestMaterializeWritesTwiceTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, sdk.Materialize(dir))
	path := filepath.Join(sdk.PythonPath(dir), "troupe_worker", "runtime.py")
	before, err := os.Stat(path)
	require.NoError(t, err)
	require.FileExists(t, sdk.NodeMain(dir))

	require.NoError(t, sdk.Materialize(dir))
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "an unchanged file must not be written again")

	require.NoError(t, os.WriteFile(path, []byte("broken"), 0o644))
	require.NoError(t, sdk.Materialize(dir))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join("python", "troupe_worker", "runtime.py"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".new-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestMaterializeNamesWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sdk"), nil, 0o644))
	require.ErrorContains(t, sdk.Materialize(dir), filepath.Join(dir, "sdk"))
}

// pythonWorker starts a worker as a node does, from the files that the binary carries.
func pythonWorker(t testing.TB) *drive.Worker {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, sdk.Materialize(dir))
	w, err := drive.Start([]string{"PYTHONPATH=" + sdk.PythonPath(dir)}, "python3", "-m", "troupe_worker")
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() }) // how it ends is for the tests about that
	return w
}

// call is one execution of an action of a pack folder.
type call struct {
	root, action, entrypoint string
	parameters               map[string]any
	session                  map[string]any
}

func (c call) args() map[string]any {
	return map[string]any{
		"execution": "0199", "attempt": 1, "action": c.action, "root": c.root, "entrypoint": c.entrypoint,
		"parameters": c.parameters, "session": c.session, "deadline_ms": 60_000, "retry_count": 0, "trace": "",
	}
}

// run executes and returns the answer's data and how many events came before it, by kind.
func run(t testing.TB, w *drive.Worker, c call) (json.RawMessage, map[string]int) {
	t.Helper()
	_, err := w.Send("execute", c.args())
	require.NoError(t, err)
	told := map[string]int{}
	for {
		e, err := w.Read()
		require.NoError(t, err)
		require.Nil(t, e.Error)
		if e.Event == "result" {
			return e.Data, told
		}
		told[e.Event]++
	}
}

func ask(t testing.TB, w *drive.Worker, command string, args any) json.RawMessage {
	t.Helper()
	_, err := w.Send(command, args)
	require.NoError(t, err)
	e, err := w.Read()
	require.NoError(t, err)
	require.Nil(t, e.Error)
	return e.Data
}

func TestTheDemoPack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, packs.Materialize(dir))
	w := pythonWorker(t)
	demo := func(name string, parameters map[string]any) call {
		return call{root: packs.Path(dir, "demo"), action: "demo." + name, entrypoint: "actions/demo.py:" + name, parameters: parameters}
	}
	counter := demo("counter", map[string]any{})
	counter.session = map[string]any{"id": "alice", "epoch": 1, "lost": false, "hit": true}
	for want := 1; want <= 2; want++ {
		data, _ := run(t, w, counter)
		var got struct{ Count int }
		require.NoError(t, json.Unmarshal(data, &got))
		require.Equal(t, want, got.Count)
	}
	data, told := run(t, w, demo("progress", map[string]any{"steps": 4, "seconds": 0}))
	require.JSONEq(t, `{"steps":4}`, string(data))
	require.Equal(t, map[string]int{"progress": 4}, told)
	data, told = run(t, w, demo("stream", map[string]any{"text": "a b c", "seconds": 0}))
	require.JSONEq(t, `{"words":3}`, string(data))
	require.Equal(t, map[string]int{"chunk": 3}, told)
	data, _ = run(t, w, demo("memory", map[string]any{"mib": 3}))
	require.JSONEq(t, `{"mib":3}`, string(data))
	_, _ = run(t, w, demo("spin", map[string]any{"seconds": 0.01}))

	_, err := w.Send("execute", demo("crash", map[string]any{"status": 7}).args())
	require.NoError(t, err)
	// A worker whose requests end exits by itself: they must not end before it has crashed.
	_, err = w.Read()
	require.ErrorIs(t, err, io.EOF)
	var exit *exec.ExitError
	require.ErrorAs(t, w.Close(), &exit)
	require.Equal(t, 7, exit.ExitCode())
}

// TestTheEmbeddingsPackMovesASession takes a session from one worker to another by snapshot, as a drain does.
func TestTheEmbeddingsPackMovesASession(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../packs/examples/embeddings")
	require.NoError(t, err)
	action := func(name string, epoch int, parameters map[string]any) call {
		return call{root: root, action: "embeddings." + name, entrypoint: "actions/index.py:" + name, parameters: parameters,
			session: map[string]any{"id": "alice", "epoch": epoch, "lost": false, "hit": true}}
	}
	search := map[string]any{"query": "a sitting cat", "top": 1}
	first, second := pythonWorker(t), pythonWorker(t)
	_, _ = run(t, first, action("add", 1, map[string]any{"texts": []string{"stocks fell on Monday", "the cat sat on the mat"}}))
	want, _ := run(t, first, action("search", 1, search))
	require.Contains(t, string(want), "the cat sat on the mat")

	ask(t, second, "hello", map[string]any{"protocol": 1, "actions": []any{
		map[string]any{"ref": "embeddings.search", "root": root, "entrypoint": "actions/index.py:search"}}})
	var saved struct{ State json.RawMessage }
	require.NoError(t, json.Unmarshal(ask(t, first, "snapshot", map[string]any{"session": "alice", "epoch": 1}), &saved))
	ask(t, second, "restore", map[string]any{"session": "alice", "epoch": 2, "state": saved.State})
	got, _ := run(t, second, action("search", 2, search))
	require.JSONEq(t, string(want), string(got))
}

const echoPython = "def echo(params, ctx):\n    return params\n"

const echoNode = "export const echo = (params) => params;\n"

// BenchmarkEcho measures a warm execute from the write of its request to the read of its result, over bare pipes.
func BenchmarkEcho(b *testing.B) {
	dir := b.TempDir()
	require.NoError(b, sdk.Materialize(dir))
	require.NoError(b, os.WriteFile(filepath.Join(dir, "echo.py"), []byte(echoPython), 0o644))
	require.NoError(b, os.WriteFile(filepath.Join(dir, "echo.mjs"), []byte(echoNode), 0o644))
	workers := []struct {
		name, file string
		argv       []string
	}{
		{"python", "echo.py", []string{"python3", "-m", "troupe_worker"}},
		{"node", "echo.mjs", []string{"node", sdk.NodeMain(dir)}},
		{"perl", "", []string{"perl", "examples/worker.pl"}},
	}
	for _, w := range workers {
		b.Run(w.name, func(b *testing.B) {
			worker, err := drive.Start([]string{"PYTHONPATH=" + sdk.PythonPath(dir)}, w.argv...)
			require.NoError(b, err)
			defer func() { _ = worker.Close() }()
			c := call{root: dir, action: "bench.echo", entrypoint: w.file + ":echo", parameters: map[string]any{"message": "hi"}}
			run(b, worker, c)
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				began := time.Now()
				run(b, worker, c)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
		})
	}
}
