package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// The doctor tells what the node that runs here waits for: a recorder that commits nothing and a full disk too, which only
// that node knows.
func TestDoctorAsksTheNodeThatRuns(t *testing.T) {
	t.Parallel()
	const (
		stuck = "recorder: nothing committed for 7s; the oldest of 12 changes has waited for 8s"
		full  = "store: out of space on its disk since 2026-01-01T00:00:00Z: database or disk is full"
		held  = "recorder: changes of 1 executions are not committed, the oldest for 9s; all others go on"
	)
	environ := func() []string { return []string{"TROUPE_DATA=" + t.TempDir(), "PATH=" + os.Getenv("PATH")} }
	for name, c := range map[string]struct {
		status int
		body   string
		state  string
		says   []string
		code   int
	}{
		"ready":          {200, `{"ready":true}`, "ok", []string{"is ready"}, 0},
		"stuck recorder": {503, `{"ready":false,"waits_for":["` + stuck + `"]}`, "fail", []string{"not ready", stuck}, 1},
		"full disk":      {503, `{"ready":false,"waits_for":["pool go is starting","` + full + `"]}`, "fail", []string{"not ready", full}, 1},
		"held execution": {200, `{"ready":true,"notes":["` + held + `"]}`, "warn", []string{"is ready, and says", held}, 0},
		"broken pool":    {200, `{"ready":true,"broken_pools":["a","b"]}`, "warn", []string{"broken pools: a, b"}, 0},
		"starting":       {503, `{"ready":false,"waits_for":["node"]}`, "warn", []string{"is starting"}, 0},
		"pools start":    {503, `{"ready":false,"waits_for":["pool go is starting"]}`, "warn", []string{"is starting"}, 0},
		"draining":       {503, `{"ready":false,"draining":true}`, "warn", []string{"shutting down"}, 0},
		"other program":  {404, `{"ready":true}`, "warn", []string{"not as a node"}, 0},
		"other answer":   {200, `hello`, "warn", []string{"not as a node"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/readyz" {
					w.WriteHeader(c.status)
					_, _ = w.Write([]byte(c.body))
				}
			}))
			defer s.Close()
			r := call(t, "", environ(), "doctor", "--listen", strings.TrimPrefix(s.URL, "http://"), "-o", "json")
			require.Equal(t, c.code, r.code, r.out)
			f := r.findings(t)["running node"]
			require.Equal(t, c.state, f.State, f.Detail)
			for _, text := range c.says {
				require.Contains(t, f.Detail, text)
			}
		})
	}
	f := call(t, "", environ(), "doctor", "--listen", servers.OwnAddress(), "-o", "json").findings(t)["running node"]
	require.Equal(t, "ok", f.State)
	require.Contains(t, f.Detail, "no node runs at")
}

func TestDoctorTellsWarningsOfPacks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "actions"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pack.yaml"), []byte("name: p\nversion: '1'\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "actions", "a.yaml"),
		[]byte("name: a\nruntime: shell\ncommand: [echo]\nparameters: {type: object, properties: {dry-run: {}}}\n"), 0o600))
	f := call(t, "", []string{"TROUPE_DATA=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, "doctor", "--listen", servers.OwnAddress(), "--packs", dir, "-o", "json").findings(t)["packs"]
	require.Equal(t, "warn", f.State)
	require.Contains(t, f.Detail, "1 packs with 1 actions, beside the built-in ones; 1 warnings")
	require.Contains(t, f.Advice, `no variable can have the name of parameter "dry-run"`)
}
