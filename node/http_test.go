package node_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/node"
)

// A health port answers questions after the node's health and nothing else, to callers of any name.
func TestHealthPort(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) { c.Listen, c.HealthListen = "127.0.0.1:0", "127.0.0.1:0" })
	require.NotEqual(t, k.Addr(), k.HealthAddr())
	status := func(address, path string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		require.NoError(t, err)
		r.Close, r.Host = true, "probe.example"
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		require.Equal(t, http.StatusOK, status(k.Addr(), path), path)
		require.Equal(t, http.StatusOK, status(k.HealthAddr(), path), path)
	}
	for _, path := range []string{"/", "/metrics", "/openapi.json", "/api/v1/pools", "/debug/tree"} {
		require.Equal(t, http.StatusNotFound, status(k.HealthAddr(), path), path)
	}
	require.NoError(t, k.stop())
	_, err := http.Get("http://" + k.HealthAddr() + "/healthz") //nolint:noctx // nobody listens there any more
	require.Error(t, err)
}

func TestMetricsAtTheHealthPort(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) {
		c.Listen, c.HealthListen, c.HealthMetrics = "127.0.0.1:0", "127.0.0.1:0", true
		c.Tokens = []api.Token{{Name: "ops", Scopes: []api.Scope{api.ScopeAdmin}, Secret: strings.Repeat("s", 32)}}
	})
	get := func(address, path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		require.NoError(t, err)
		r.Close, r.Host = true, "10.0.0.5:7072" // as a scraper asks for it
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
	code, body := get(k.HealthAddr(), "/metrics")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "troupe_store_up")
	code, _ = get(k.HealthAddr(), "/api/v1/pools")
	require.Equal(t, http.StatusNotFound, code)
	code, _ = get(k.Addr(), "/metrics")
	require.Equal(t, http.StatusUnauthorized, code, "the API's own needs a token all the same")
}

func TestAHealthPortInUseIsSaid(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) { c.HealthListen = "127.0.0.1:0" })
	require.Empty(t, k.Addr())
	cfg, _ := short(t, t.TempDir())
	cfg.HealthListen = k.HealthAddr()
	n, err := node.New(cfg)
	require.NoError(t, err)
	require.ErrorContains(t, n.Start(t.Context()), "health_listen")
}
