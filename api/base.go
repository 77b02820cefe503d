package api

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// HTTP says under which path browsers and other callers see the API.
type HTTP struct {
	BasePath string `yaml:"base_path" flag:"base-path" help:"Path below which a proxy shows the node, as in /troupe; the console is at /troupe/console/ then. The node answers there and at / too, so the proxy may remove the path or leave it. Empty: none."`
}

const basePathMax = 256 // characters

var basePath = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`)

// ownPaths are the first parts of the paths that a node has itself. A base path that began so could not be told from them.
var ownPaths = []string{"api", "console", "debug", "healthz", "metrics", "openapi.json", "readyz"}

// CheckBasePath returns what is wrong with a base path.
func CheckBasePath(path string) error {
	switch first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/"); {
	case path == "":
		return nil
	case len(path) > basePathMax:
		return fmt.Errorf("must have at most %d characters", basePathMax)
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("must begin with a slash")
	case strings.HasSuffix(path, "/"):
		return fmt.Errorf("must not end with a slash")
	case !basePath.MatchString(path):
		return fmt.Errorf("must be parts of letters, digits and ._~-, with a slash before each")
	case slices.Contains(ownPaths, first):
		return fmt.Errorf("must not begin with a path of the node's own (/%s)", strings.Join(ownPaths, ", /"))
	}
	return nil
}

// below answers under a base path as it answers without one: a proxy may remove the path or leave it.
func below(base string, next http.Handler) http.Handler {
	if base == "" {
		return next
	}
	stripped := http.StripPrefix(base, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == base:
			root := r.Clone(r.Context())
			root.URL.Path, root.URL.RawPath = "/", ""
			next.ServeHTTP(w, root)
		case strings.HasPrefix(r.URL.EscapedPath(), base+"/"):
			stripped.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
