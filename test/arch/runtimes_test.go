package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/runtime"
)

// runtimeNamers may name a runtime outside of the package runtime, each for a reason.
var runtimeNamers = map[string]string{
	"packs/embed.go":           "the built-in packs are content: which interpreter one needs stands beside its files",
	"sdk/embed.go":             "an SDK is the other half of its runtime, and this is where its files are",
	"store/storetest/fleet.go": "a suite of tests, to which any name would do",
}

// TestOnlyThePackageRuntimeNamesARuntime keeps a new runtime in one file: whoever wants to know something of a runtime asks its
// Spec. Two of the names are words of their own, so those count only where the code speaks of a runtime.
func TestOnlyThePackageRuntimeNamesARuntime(t *testing.T) {
	t.Parallel()
	_, packages := load(t)
	named := map[string]bool{}
	for _, p := range packages {
		if p.Path == "runtime" || p.Path == "test" || strings.HasPrefix(p.Path, "test/") {
			continue
		}
		for _, name := range p.Files {
			file := filepath.Join(p.Path, name)
			fset := token.NewFileSet()
			parsed, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, found := range runtimesNamed(fset, parsed) {
				named[file] = true
				if runtimeNamers[file] == "" {
					t.Errorf("%s/%s names a runtime: ask its Spec, see the package runtime", p.Path, found)
				}
			}
		}
	}
	for file := range runtimeNamers {
		require.True(t, named[file], "%s names no runtime any more: take it off the list", file)
	}
}

// runtimesNamed is where a file names a runtime: by a text that means nothing else, or by any of the names where it is
// converted to, compared with or assigned to a Runtime.
func runtimesNamed(fset *token.FileSet, file *ast.File) (found []string) {
	note := func(n ast.Node, name string) {
		found = append(found, fmt.Sprintf("%s: %s", filepath.Base(fset.Position(n.Pos()).String()), name))
	}
	clear := []string{"python", "shell"}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if name := literal(n); slices.Contains(clear, name) {
				note(n, name)
			}
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Runtime" && len(n.Args) == 1 {
				noteAmbiguous(n.Args[0], clear, note)
			}
		case *ast.KeyValueExpr:
			if k, ok := n.Key.(*ast.Ident); ok && k.Name == "Runtime" {
				noteAmbiguous(n.Value, clear, note)
			}
		case *ast.BinaryExpr:
			if aboutRuntime(n.X) {
				noteAmbiguous(n.Y, clear, note)
			}
		case *ast.SwitchStmt:
			if n.Tag == nil || !aboutRuntime(n.Tag) {
				return true
			}
			for _, c := range n.Body.List {
				for _, value := range c.(*ast.CaseClause).List {
					noteAmbiguous(value, clear, note)
				}
			}
		}
		return true
	})
	return found
}

// aboutRuntime reports whether an expression's last word is Runtime.
func aboutRuntime(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Runtime"
}

func noteAmbiguous(e ast.Expr, clear []string, note func(ast.Node, string)) {
	name := literal(e)
	if _, known := runtime.All().Of(messages.Runtime(name)); known && !slices.Contains(clear, name) {
		note(e, name)
	}
}

// literal is the text of a string literal.
func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}

func TestARuntimeIsFoundWhereItIsNamed(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", `package p
func f(a messages.Action) bool {
	log("node", "go", "process", "x")
	switch a.Runtime {
	case "go":
	}
	_ = Pool{Runtime: "process"}
	_ = messages.Runtime("node")
	g("python")
	return a.Runtime != "process"
}`, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"p.go:5:7: go", "p.go:7:20: process", "p.go:8:23: node", "p.go:9:4: python", "p.go:10:22: process"},
		runtimesNamed(fset, file))
}
