package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// Sleeps returns the calls of time.Sleep in a package's files outside a bubble of testing/synctest. In a bubble a sleep
// ends as soon as all other goroutines wait. Elsewhere a test that sleeps guesses a duration. A function passed to a
// function of the package that makes a bubble runs in that bubble. A function that calls synctest.Wait runs in a
// bubble.
func Sleeps(set *token.FileSet, files []*ast.File) []token.Position {
	makers := map[string]bool{}
	for _, file := range files {
		bubble := nameOf(file, "testing/synctest")
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && takesFunction(f) && bodyCalls(f.Body, bubble, "Test") {
				makers[f.Name.Name] = true
			}
		}
	}
	var found []token.Position
	for _, file := range files {
		clock, bubble := nameOf(file, "time"), nameOf(file, "testing/synctest")
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && f.Body != nil && !strings.HasPrefix(f.Name.Name, "Test") && bodyCalls(f.Body, bubble, "Wait") {
				return false
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, ours := call.Fun.(*ast.Ident)
			switch {
			case calls(call, bubble, "Test"), ours && makers[name.Name]:
				return false
			case calls(call, clock, "Sleep"):
				found = append(found, set.Position(call.Pos()))
			}
			return true
		})
	}
	return found
}

func takesFunction(f *ast.FuncDecl) bool {
	return slices.ContainsFunc(f.Type.Params.List, func(p *ast.Field) bool {
		_, ok := p.Type.(*ast.FuncType)
		return ok
	})
}

// bodyCalls reports whether a function of a package is called in a body.
func bodyCalls(body *ast.BlockStmt, pkg, name string) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && calls(call, pkg, name) {
			found = true
		}
		return !found
	})
	return found
}

// nameOf is the name by which a file calls a package that it imports; empty where it does not.
func nameOf(file *ast.File, path string) string {
	for _, i := range file.Imports {
		if i.Path.Value != strconv.Quote(path) {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return path[strings.LastIndex(path, "/")+1:]
	}
	return ""
}

func calls(call *ast.CallExpr, pkg, name string) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || pkg == "" {
		return false
	}
	of, ok := f.X.(*ast.Ident)
	return ok && of.Name == pkg && f.Sel.Name == name
}

// Exception allows a test file some sleeps, with the reason.
type Exception struct {
	Path   string
	Count  int
	Reason string
}

// ParseExceptions reads sleeps.txt: path, number of sleeps, and the reason after a #.
func ParseExceptions(text string) ([]Exception, error) {
	var list []Exception
	for i, line := range strings.Split(text, "\n") {
		body, reason, _ := strings.Cut(line, "#")
		fields := strings.Fields(body)
		if len(fields) == 0 {
			continue
		}
		count, err := 0, error(nil)
		if len(fields) == 2 {
			count, err = strconv.Atoi(fields[1])
		}
		if reason = strings.TrimSpace(reason); err != nil || count <= 0 || reason == "" {
			return nil, fmt.Errorf("line %d: %q: want a file, a number of sleeps and # a reason", i+1, line)
		}
		list = append(list, Exception{Path: fields[0], Count: count, Reason: reason})
	}
	return list, nil
}

// CheckSleeps compares the found sleeps, by file, with the exceptions. It also reports a number that is too high, so
// that the list only shrinks.
func CheckSleeps(found map[string][]token.Position, exceptions []Exception) []string {
	var problems []string
	allowed := map[string]int{}
	for _, e := range exceptions {
		allowed[e.Path] = e.Count
		if n := len(found[e.Path]); n < e.Count {
			problems = append(problems, fmt.Sprintf("%s has %d sleeps, and sleeps.txt lets it have %d: lower the number", e.Path, n, e.Count))
		}
	}
	for path, at := range found {
		if len(at) > allowed[path] {
			problems = append(problems, fmt.Sprintf("%s sleeps %d times outside of a bubble of testing/synctest, and may %d times: "+
				"wait for a signal, or say in sleeps.txt why the time is what the test measures (%v)", path, len(at), allowed[path], at))
		}
	}
	return problems
}
