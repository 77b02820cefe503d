package debug

import (
	"context"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The page's script is tested in its own language.
func TestThePageShowsWhatNodesSay(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--test", "page/")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// A browser runs the page's own script and style, and nothing else; and the page asks nobody but its node.
func TestThePageRunsItsOwnScriptAlone(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	New(some).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/debug/tree", nil))
	require.Equal(t, 200, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	policy, text := w.Header().Get("Content-Security-Policy"), w.Body.String()
	for _, tag := range []string{"script", "style"} {
		parts := regexp.MustCompile("(?s)<"+tag+">(.*?)</"+tag+">").FindAllStringSubmatch(text, -1)
		require.Len(t, parts, 1, tag)
		require.Contains(t, policy, tag+"-src 'sha256-"+digest(parts[0][1])+"';")
	}
	require.Contains(t, policy, "default-src 'none'; connect-src 'self';")
	require.NotContains(t, text, "{{")
	require.NotRegexp(t, `(?i)\son[a-z]+=|javascript:|style="|https?://`, text)
	require.Less(t, strings.Count(text, "\n"), 1000)
}
