package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABasePathIsChecked(t *testing.T) {
	t.Parallel()
	for path, wrong := range map[string]string{
		"": "", "/troupe": "", "/a/b-c_d.e~f": "", "/apis": "", "/t/api": "",
		"troupe": "begin with a slash", "/troupe/": "not end with a slash", "/": "not end with a slash", "//a": "parts of letters", "/a//b": "parts of letters",
		"/a/../b": "parts of letters", "/.": "parts of letters", "/a b": "parts of letters", "/a%20b": "parts of letters", `/"><script>`: "parts of letters", "/a?b": "parts of letters",
		"/api": "node's own", "/api/x": "node's own", "/console": "node's own", "/healthz": "node's own",
		"/" + strings.Repeat("a", basePathMax): "at most 256",
	} {
		err := CheckBasePath(path)
		if wrong == "" {
			require.NoError(t, err, path)
			continue
		}
		require.ErrorContains(t, err, wrong, path)
	}
}

// The node answers below its base path and without it, and leads browsers to the console below it.
func TestTheNodeAnswersBelowItsBasePath(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("the page at " + r.URL.Path)) })
	h := New(Config{Backend: newBackend(t), BasePath: "/ops/troupe", ConsolePage: page})
	ask := func(path, accept string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:7070"+path, nil)
		r.RemoteAddr = "127.0.0.1:4711"
		r.Header.Set("Accept", accept)
		h.ServeHTTP(w, r)
		return w
	}
	for _, base := range []string{"", "/ops/troupe"} {
		require.Equal(t, 200, ask(base+"/healthz", "").Code, base)
		require.Equal(t, 200, ask(base+"/api/v1/me", "").Code, base)
		require.Equal(t, "the page at /console/executions", ask(base+"/console/executions", "text/html").Body.String(), base)
		for from, to := range map[string]string{"/": "/ops/troupe/console/", "/console": "/ops/troupe/console/", "/debug/tree": "/ops/troupe/console/tree"} {
			w := ask(base+from, "text/html")
			require.Equal(t, http.StatusFound, w.Code, base+from)
			require.Equal(t, to, w.Header().Get("Location"), base+from)
		}
		require.Equal(t, 404, ask(base+"/nothing", "").Code, base)
		require.Equal(t, 404, ask(base+"//api/v1/me", "").Code, "%s: no path but the shortest", base)
		require.Equal(t, 404, ask(base+"/../api/v1/me", "").Code, base)
	}
	require.Equal(t, "/ops/troupe/console/", ask("/ops/troupe", "text/html").Header().Get("Location"))
	require.Equal(t, 404, ask("/ops/troupes/healthz", "").Code)
	require.Contains(t, ask("/openapi.json", "").Body.String(), `"servers":[{"url":"/ops/troupe"}]`)
}

// A login holds below the base path alone, so that other applications behind the proxy do not get it.
func TestALoginHoldsBelowTheBasePath(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t), Access: withTokens(t, consoleTokens()), BasePath: "/ops/troupe"})
	require.Equal(t, "/ops/troupe/", logIn(t, h, adminToken).Path)
}
