package arch_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/arch"
)

const sample = `
[order]
messages                    # words
health placement            # decisions
store                       # ports
store/sqlite store/suite    # adapters
actors                      # shells
cmd/...                     # flags
[pure]
health placement
[fences]
github.com/x/pg/v5: store/sqlite # one door
[tests]
testing github.com/x/require
in: store/suite
`

func rules(t *testing.T, text string) arch.Rules {
	t.Helper()
	r, err := arch.ParseRules(text)
	require.NoError(t, err)
	return r
}

func ours(path string) string { return arch.Module + "/" + path }

func TestAGoodTreePasses(t *testing.T) {
	t.Parallel()
	require.Empty(t, arch.Check(rules(t, sample), []arch.Package{
		{Path: "messages", Imports: []string{"time", "github.com/google/uuid"}},
		{Path: "health", Imports: []string{ours("messages"), "math"}, TestImports: []string{"testing", "os", "github.com/x/require"}},
		{Path: "store", Imports: []string{ours("health"), "context"}, TestImports: []string{ours("store/suite")}},
		{Path: "store/sqlite", Imports: []string{ours("store"), "github.com/x/pg/v5/conn"}},
		{Path: "store/suite", Imports: []string{"testing", "github.com/x/require", ours("store")}},
		{Path: "actors", Imports: []string{ours("store"), ours("placement")}},
		{Path: "cmd/tool", Imports: []string{ours("cmd/tool/inner"), ours("actors")}},
		{Path: "cmd/tool/inner"},
	}))
}

func TestABadImportIsFoundWithItsReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pkg  arch.Package
		want string
	}{
		"upwards":            {arch.Package{Path: "store", Imports: []string{ours("actors")}}, `actors for "shells"`},
		"sideways":           {arch.Package{Path: "store/suite", Imports: []string{ours("store/sqlite")}}, "same line of [order]: adapters"},
		"not in the order":   {arch.Package{Path: "helpers"}, "no line of [order] names it"},
		"through a fence":    {arch.Package{Path: "actors", Imports: []string{"github.com/x/pg/v5"}}, "only store/sqlite may: one door"},
		"a test, too":        {arch.Package{Path: "actors", TestImports: []string{"github.com/x/pg/v5/pool"}}, "one door"},
		"a test's library":   {arch.Package{Path: "actors", Imports: []string{"github.com/x/require"}}, "for tests only"},
		"a suite":            {arch.Package{Path: "actors", Imports: []string{ours("store/suite")}}, "that package is a test"},
		"pure with a log":    {arch.Package{Path: "health", Imports: []string{"log/slog"}}, "take what it gives as an argument"},
		"pure with net":      {arch.Package{Path: "health", Imports: []string{"net"}}, "imports net"},
		"pure with a module": {arch.Package{Path: "health", Imports: []string{"github.com/hashicorp/go-hclog"}}, "want messages and the standard library"},
		"pure with a port":   {arch.Package{Path: "placement", Imports: []string{ours("store")}}, "is pure and imports store"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := arch.Check(rules(t, sample), []arch.Package{c.pkg})
			require.NotEmpty(t, found)
			require.Contains(t, strings.Join(found, "\n"), c.want)
		})
	}
}

func TestAFenceEndsAtItsOwnName(t *testing.T) {
	t.Parallel()
	require.Empty(t, arch.Check(rules(t, sample), []arch.Package{{Path: "actors", Imports: []string{"github.com/x/pg/v50"}}}))
}

func TestABrokenTextNamesItsLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"messages # before any section": "line 1",
		"[order]\nmessages":             "line 2: \"messages\" has no reason",
		"[fences]\npg: store":           "want dependency: packages # reason",
		"[fence]\npg: store # x":        "want [order], [pure], [fences], [links] or [tests]",
	} {
		_, err := arch.ParseRules(text)
		require.ErrorContains(t, err, want)
	}
}

func TestImpureCodeIsFound(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"_ = time.Now()":                         "time.Now",
		"f := time.Sleep; _ = f":                 "time.Sleep",
		"_ = rand.IntN(3)":                       "global rand.IntN",
		"go func() {}()":                         "goroutine",
		"var c chan int; _ = c":                  "uses a channel",
		"f := func(c <-chan int) { <-c }; _ = f": "receives from a channel",
		"select {}":                              "waits on a channel",
	} {
		require.Contains(t, strings.Join(purity(t, body), "\n"), want, body)
	}
}

func TestPureCodePasses(t *testing.T) {
	t.Parallel()
	require.Empty(t, purity(t, `
		r := rand.New(rand.NewPCG(1, 2))
		_ = r.IntN(3)
		now := time.Unix(0, 0).Add(time.Second)
		_ = now`))
}

func purity(t *testing.T, body string) []string {
	t.Helper()
	fset := token.NewFileSet()
	src := "package p\nimport (\"math/rand/v2\"; \"time\")\nvar _ = rand.New\nvar _ time.Time\nfunc f() {\n" + body + "\n}"
	file, err := parser.ParseFile(fset, "p.go", src, 0)
	require.NoError(t, err, body)
	return arch.CheckPurity(fset, file)
}

func TestAMissingPackageDocIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("bare.go", "package p\n")
	write("short.go", "// Package p is p.\npackage p\n")
	write("doc.go", "// Package p decides what this test needs it to decide, and no more.\npackage p\n")
	for name, want := range map[string]bool{"bare.go": false, "short.go": false, "doc.go": true} {
		got, err := arch.HasDoc(arch.Package{Dir: dir, Files: []string{name}})
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
}
