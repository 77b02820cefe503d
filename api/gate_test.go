package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// While the gate is shut every call that needs the store is refused at once, with when to try again; the others are served.
func TestGate(t *testing.T) {
	t.Parallel()
	shut := true
	h := New(Config{Backend: newBackend(t), Gate: func() *messages.Problem {
		if shut {
			return messages.Problemf(messages.CodeStoreUnavailable, "the store is away")
		}
		return nil
	}})
	id := executionsPath + "/" + messages.NewExecutionID().String()
	for _, c := range []struct{ method, path, body string }{
		{"POST", executionsPath, `{"action_ref":"a"}`},
		{"GET", executionsPath, ""},
		{"GET", id, ""},
		{"GET", id + "/wait", ""},
		{"GET", "/api/v1/pools", ""},
		{"GET", "/api/v1/sessions", ""},
	} {
		w := ask(t, h, c.method, c.path, c.body)
		refused(t, w, 503, messages.CodeStoreUnavailable, "")
		require.Equal(t, "1", w.Header().Get("Retry-After"), c.path)
	}
	for _, path := range []string{"/healthz", "/openapi.json", "/api/v1/actions", "/api/v1/workers", id + "/why"} {
		require.NotEqual(t, 503, ask(t, h, "GET", path, "").Code, path)
	}
	require.NotContains(t, ask(t, h, "GET", "/readyz", "").Body.String(), messages.CodeStoreUnavailable)
	shut = false
	require.Equal(t, 200, ask(t, h, "GET", "/api/v1/pools", "").Code)
}
