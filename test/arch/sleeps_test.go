package arch_test

import (
	_ "embed"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/arch"
)

//go:embed sleeps.txt
var sleepsText string

func TestTestsWaitForSignals(t *testing.T) {
	t.Parallel()
	exceptions, err := arch.ParseExceptions(sleepsText)
	require.NoError(t, err)
	rules, packages := load(t)
	found := map[string][]token.Position{}
	for _, p := range packages {
		names := p.TestFiles
		if rules.IsTest(p.Path) {
			names = slices.Concat(names, p.Files)
		}
		set := token.NewFileSet()
		var files []*ast.File
		for _, name := range names {
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
		}
		for _, at := range arch.Sleeps(set, files) {
			path := filepath.Join(p.Path, filepath.Base(at.Filename))
			found[path] = append(found[path], at)
		}
	}
	requireNone(t, arch.CheckSleeps(found, exceptions))
}

func TestASleepIsFoundOutsideOfABubble(t *testing.T) {
	t.Parallel()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "a_test.go", `package a
import (clock "time"; "testing/synctest")
func bubble(t *testing.T, do func()) { synctest.Test(t, func(t *testing.T) { do() }) }
func TestA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { clock.Sleep(1) })
	bubble(t, func() { clock.Sleep(1) })
	clock.Sleep(2)
	other.Sleep(3)
}`, 0)
	require.NoError(t, err)
	at := arch.Sleeps(set, []*ast.File{file})
	require.Len(t, at, 1)
	require.Equal(t, 7, at[0].Line)
	found := map[string][]token.Position{"a_test.go": at}
	require.Len(t, arch.CheckSleeps(found, nil), 1)
	one, err := arch.ParseExceptions("# why\na_test.go 1 # it measures time\n")
	require.NoError(t, err)
	require.Empty(t, arch.CheckSleeps(found, one))
	require.Len(t, arch.CheckSleeps(nil, one), 1, "the list only shrinks")
	for _, bad := range []string{"a_test.go 1", "a_test.go # why", "a_test.go 0 # why"} {
		_, err = arch.ParseExceptions(bad)
		require.Error(t, err, bad)
	}
}
