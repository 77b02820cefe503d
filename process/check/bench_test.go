package check_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/sdk"
)

// BenchmarkRoundTrip measures a warm execute from Send to its Reply, through the process port, for each SDK.
func BenchmarkRoundTrip(b *testing.B) {
	dir := b.TempDir()
	require.NoError(b, sdk.Materialize(dir))
	require.NoError(b, os.WriteFile(filepath.Join(dir, "echo.py"), []byte("def run(params, ctx): return params\n"), 0o600))
	require.NoError(b, os.WriteFile(filepath.Join(dir, "echo.mjs"), []byte("export const run = (params) => params;\n"), 0o600))
	self, err := os.Executable()
	require.NoError(b, err)
	guardian, err := process.NewGuardian(process.Config{})
	require.NoError(b, err)
	defer func() { require.NoError(b, guardian.Close()) }()
	for _, w := range []struct {
		name, entrypoint string
		argv             []string
	}{
		{"python", "echo.py", []string{"python3", "-m", "troupe_worker"}},
		{"node", "echo.mjs", []string{"node", sdk.NodeMain(dir)}},
		{"go", "", []string{self}},
	} {
		b.Run(w.name, func(b *testing.B) {
			replies := make(chan process.Reply, 1)
			env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "PYTHONPATH=" + sdk.PythonPath(dir), goWorker + "=1"}
			p, err := guardian.Start(b.Context(), process.Spec{Argv: w.argv, Env: env, Framed: true}, func(e process.Event) {
				if r, ok := e.(process.Reply); ok {
					replies <- r
				}
			})
			require.NoError(b, err)
			defer p.Kill()
			roundTrips(b, p, replies, map[string]any{
				"execution": "0199aaaa-0000-7000-8000-000000000000", "attempt": 1, "action": "check.echo", "root": dir, "entrypoint": w.entrypoint,
				"parameters": json.RawMessage(`{"message":"hi"}`), "session": nil, "deadline_ms": 300_000, "retry_count": 0, "trace": "",
			})
		})
	}
}

func roundTrips(b *testing.B, p process.Process, replies <-chan process.Reply, args any) {
	b.Helper()
	echo := func() {
		_, err := p.Send("execute", args)
		require.NoError(b, err)
		r := <-replies
		require.Nil(b, r.Err)
	}
	for range 100 {
		echo()
	}
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		began := time.Now()
		echo()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
}
