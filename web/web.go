package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"html"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// Path is where the console is served.
const Path = "/console/"

// Policy is the Content-Security-Policy of the page. It runs only its own files, and calls only its own node. Svelte makes
// the nodes of its templates by the policy svelte-trusted-html; no other text becomes HTML. By the policy troupe-worker, the address of
// the worker that holds the live stream becomes a script, and no other one.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; worker-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'self'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types svelte-trusted-html troupe-worker"

// file is one file of the console as it is sent.
type file struct {
	body, zipped []byte // zipped: nil if it is not smaller
	kind         string
}

// files reads and compresses every file once, at the first request.
var files = sync.OnceValue(func() map[string]file {
	found := map[string]file{}
	err := fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		found[strings.TrimPrefix(name, "dist/")] = file{body: body, zipped: compress(body), kind: kindOf(name)}
		return nil
	})
	if err != nil {
		panic(err) // embedded files can be read
	}
	return found
})

func compress(body []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is known
	}
	_, _ = w.Write(body) // a buffer takes all
	_ = w.Close()
	if out.Len() >= len(body) {
		return nil
	}
	return out.Bytes()
}

// kindOf does not ask the machine's own table of types: it differs between machines.
func kindOf(name string) string {
	switch ext := path.Ext(name); ext {
	case ".js", ".css", ".html", ".svg": // of the built-in table
		return mime.TypeByExtension(ext)
	case ".woff2":
		return "font/woff2"
	}
	return "text/plain; charset=utf-8"
}

const page = "index.html"

// Handler serves the console. A path without a file is a place within the console: it gets the page, which reads the path.
// Base is the path below which browsers see the node, as in /troupe; empty: none. The requests come without it.
func Handler(base string) http.Handler {
	index := sync.OnceValue(func() file { return below(base) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, index) })
}

// ownBase is the page's own address in the built file.
const ownBase = `<base href="` + Path + `">`

// below is the page with the address at which browsers see it: all else in it is relative to that.
func below(base string) file {
	f := files()[page]
	if base == "" {
		return f
	}
	f.body = bytes.Replace(f.body, []byte(ownBase), []byte(`<base href="`+html.EscapeString(base+Path)+`">`), 1)
	f.zipped = compress(f.body)
	return f
}

func serve(w http.ResponseWriter, r *http.Request, index func() file) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the console's files are only read", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, Path)
	f, found := files()[name]
	if !found {
		if strings.HasPrefix(name, "assets/") {
			http.Error(w, "the console has no such file; load its page again", http.StatusNotFound)
			return
		}
		name = page
	}
	if name == page {
		f = index()
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "Accept-Encoding")
	if strings.HasPrefix(name, "assets/") { // its name has the hash of its content
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	if name == page || f.kind == kindOf("a.js") { // a worker has the policy of its own file
		h.Set("Content-Security-Policy", Policy)
	}
	if name == page {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	body := f.body
	if f.zipped != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}
