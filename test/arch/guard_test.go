package arch_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// local are texts that belong to the machine of whoever wrote a file and not to the project. Each is put together
// from parts, so that this file does not hold it. A pattern is tried where one of its hints stands: most files hold none, and
// to look for a plain text is many times faster.
var local = map[string]struct {
	pattern *regexp.Regexp
	hints   []string
}{
	"a path of one machine": {
		regexp.MustCompile("/wo" + `rk/|/ro` + `ot/|/Us` + `ers/[a-z]|/home/[a-z]+/(go|src|dev)/`),
		[]string{"/wo" + "rk/", "/ro" + "ot/", "/Us" + "ers/", "/home/"},
	},
	"a package registry by its host": {
		regexp.MustCompile("goprox" + `y\.(io|cn)|artifact` + `ory|:48` + `73/|/nex` + `us/|verd` + `accio`),
		[]string{"goprox" + "y.", "artifact" + "ory", ":48" + "73/", "/nex" + "us/", "verd" + "accio"},
	},
	"a dependency by a local folder": {
		regexp.MustCompile(`(?m)^replace .*=> *[./]|"file:` + `\.\.?/`),
		[]string{"replace ", `"file:` + `.`},
	},
}

// findLocal returns what of the text belongs to a machine.
func findLocal(text []byte) []string {
	var found []string
	for what, l := range local {
		if !slices.ContainsFunc(l.hints, func(hint string) bool { return bytes.Contains(text, []byte(hint)) }) {
			continue
		}
		if hit := l.pattern.Find(text); hit != nil {
			found = append(found, what+": "+string(hit))
		}
	}
	return found
}

func TestNoFileNamesAMachine(t *testing.T) {
	t.Parallel()
	seen := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if entry.IsDir() {
			return skipUntracked(path)
		}
		text, err := readText(path, entry)
		if err != nil || text == nil {
			return err
		}
		seen++
		for _, found := range findLocal(text) {
			t.Errorf("%s holds %s", strings.TrimPrefix(path, root+"/"), found)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, seen, 20, "the walk missed the module")
}

// readText returns nil for what is no text, for the file by which a linked work tree finds its repository, and for what another
// test made and removed again during the walk.
func readText(path string, entry fs.DirEntry) ([]byte, error) {
	if !entry.Type().IsRegular() || entry.Name() == ".git" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || bytes.IndexByte(text, 0) >= 0 {
		return nil, nil
	}
	return text, err
}

// skipUntracked leaves out the folders that .gitignore names, and git's own.
func skipUntracked(path string) error {
	if strings.HasSuffix(path, filepath.Join("testdata", "rapid")) {
		return fs.SkipDir
	}
	switch filepath.Base(path) {
	case ".git", "node_modules", "__pycache__":
		return fs.SkipDir
	}
	switch path {
	case filepath.Join(root, "bin"), filepath.Join(root, "data"):
		return fs.SkipDir
	}
	return nil
}

func TestTheGuardSeesWhatItGuardsAgainst(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"cd /wo" + "rk/main", "GOBIN=/ro" + "ot/go/bin", "open /Us" + "ers/ana/x",
		"replace a => ../" + "b", `"x": "file:` + `../x"`, "https://goprox" + "y.io",
	} {
		require.NotEmpty(t, findLocal([]byte(bad)), bad)
	}
	for _, good := range []string{"/var/lib/troupe", "the network/ path", "chroot", "/srv/models", "a replacement => b"} {
		require.Empty(t, findLocal([]byte(good)), good)
	}
}
