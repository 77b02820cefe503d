package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func get(t *testing.T, path, encoding string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
	r.Header.Set("Accept-Encoding", encoding)
	Handler("").ServeHTTP(w, r)
	return w
}

// Every place within the console is the same page, under a policy that allows its own files only.
func TestEveryPlaceIsThePage(t *testing.T) {
	t.Parallel()
	page := get(t, Path, "").Body.String()
	require.Contains(t, page, `<base href="`+Path+`">`)
	for _, path := range []string{"executions", "executions/01a2", "a/b/c", "../dist/index.html", "dist"} {
		w := get(t, Path+path, "")
		require.Equal(t, 200, w.Code, path)
		require.Equal(t, page, w.Body.String(), path)
		require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
		require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none';")
		require.NotContains(t, w.Header().Get("Content-Security-Policy"), "unsafe")
	}
	require.NotRegexp(t, `(?i)<style|<script>|style="|\son[a-z]+=|https?://`, page)
}

// Below a base path the page names that in its address, and nothing else in it changes.
func TestThePageKnowsItsBasePath(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"", "gzip"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "GET", Path+"executions", nil)
		r.Header.Set("Accept-Encoding", encoding)
		Handler("/ops/troupe").ServeHTTP(w, r)
		body := w.Body.String()
		if encoding == "gzip" {
			z, err := gzip.NewReader(w.Body)
			require.NoError(t, err)
			plain, err := io.ReadAll(z)
			require.NoError(t, err)
			body = string(plain)
		}
		require.Equal(t, strings.Replace(get(t, Path, "").Body.String(), `<base href="/console/">`, `<base href="/ops/troupe/console/">`, 1), body)
		require.Contains(t, body, `<base href="/ops/troupe/console/">`)
	}
}

// The worker of the live stream runs under the same policy, which names it: no other address becomes a script.
func TestTheWorkerHasThePolicyToo(t *testing.T) {
	t.Parallel()
	found := 0
	for name := range files() {
		if !strings.HasSuffix(name, ".js") {
			continue
		}
		found++
		require.Equal(t, Policy, get(t, Path+name, "").Header().Get("Content-Security-Policy"), name)
	}
	require.GreaterOrEqual(t, found, 3, "the page's script, the worker's, and those of parts that are loaded later")
	require.Contains(t, Policy, "trusted-types svelte-trusted-html troupe-worker")
	require.Contains(t, Policy, "worker-src 'self'")
}

// A file's name has its content's hash, so it is kept for ever, and one that is gone is never answered with the page.
func TestFilesAreKeptByTheirNames(t *testing.T) {
	t.Parallel()
	assets := regexp.MustCompile(`"\./(assets/[^"]+)"`).FindAllStringSubmatch(get(t, Path, "").Body.String(), -1)
	require.GreaterOrEqual(t, len(assets), 3)
	for _, m := range assets {
		w := get(t, Path+m[1], "br, gzip")
		require.Equal(t, 200, w.Code, m[1])
		require.Contains(t, w.Header().Get("Cache-Control"), "immutable")
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		if w.Header().Get("Content-Encoding") == "gzip" {
			r, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes()))
			require.NoError(t, err)
			body, err := io.ReadAll(r)
			require.NoError(t, err)
			require.Equal(t, get(t, Path+m[1], "").Body.Bytes(), body)
		}
	}
	require.Equal(t, 404, get(t, Path+"assets/index-gone.js", "").Code)
	w := httptest.NewRecorder()
	Handler("").ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", Path, strings.NewReader("x")))
	require.Equal(t, 405, w.Code)
}

// firstViewMax bounds what a browser loads before it shows the first view, and partMax what it loads for a further page, in bytes of gzip.
const (
	firstViewMax = 150_000
	partMax      = 60_000
)

// The first view is what the page names, with its worker, icon and charts. Each other file is a part that is loaded when it is shown.
func TestTheFirstViewIsSmall(t *testing.T) {
	t.Parallel()
	page := get(t, Path, "").Body.String()
	first, parts := 0, 0
	for name, f := range files() {
		size := len(f.body)
		if f.zipped != nil {
			size = len(f.zipped)
		}
		switch {
		case name == "licenses.txt":
		case strings.Contains(page, name), regexp.MustCompile(`^assets/(worker-|Charts-)|^index.html$`).MatchString(name):
			first += size
		default:
			parts++
			require.Less(t, size, partMax, name)
		}
	}
	require.Less(t, first, firstViewMax)
	require.Greater(t, first, 10_000)
	require.Less(t, parts, 40)
}

// The page names no other host, and makes no HTML of a text by itself.
func TestThePageAsksItsNodeAlone(t *testing.T) {
	t.Parallel()
	known := regexp.MustCompile(`https?://(svelte\.dev/e/|www\.w3\.org/|node/)`)
	for name, f := range files() {
		if name == "licenses.txt" {
			continue
		}
		rest := known.ReplaceAllString(string(f.body), "")
		require.NotRegexp(t, `https?://[a-z]`, rest, name)
		require.NotRegexp(t, `\beval\(|new Function\(|document\.write`, rest, name)
	}
}
