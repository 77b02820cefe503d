package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"strconv"
	"strings"
)

// clock are the functions of package time that read or wait on the clock.
var clock = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
	"Tick": true, "NewTimer": true, "NewTicker": true,
}

// ownRandom are the names of math/rand and math/rand/v2 that use a given source, or make one.
var ownRandom = map[string]bool{
	"Rand": true, "Source": true, "Source64": true, "Zipf": true, "PCG": true, "ChaCha8": true,
	"New": true, "NewSource": true, "NewZipf": true, "NewPCG": true, "NewChaCha8": true,
}

// CheckPurity returns every place in a pure package's file whose result depends on more than its arguments.
func CheckPurity(fset *token.FileSet, file *ast.File) []string {
	var found []string
	names := importNames(file)
	ast.Inspect(file, func(n ast.Node) bool {
		if what := impurity(n, names); what != "" {
			found = append(found, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), what))
		}
		return true
	})
	return found
}

// impurity says what is impure about the node; empty: nothing.
func impurity(n ast.Node, names map[string]string) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a pure package starts a goroutine: return what is to be done instead"
	case *ast.ChanType:
		return "a pure package uses a channel: return a value instead"
	case *ast.SelectStmt, *ast.SendStmt:
		return "a pure package waits on a channel: return a value instead"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "a pure package receives from a channel: take the value as an argument"
		}
	case *ast.SelectorExpr:
		return impureCall(n, names)
	}
	return ""
}

func impureCall(n *ast.SelectorExpr, names map[string]string) string {
	x, ok := n.X.(*ast.Ident)
	if !ok {
		return ""
	}
	switch names[x.Name] {
	case "time":
		if clock[n.Sel.Name] {
			return fmt.Sprintf("a pure package calls time.%s: take now as an argument", n.Sel.Name)
		}
	case "math/rand", "math/rand/v2":
		if !ownRandom[n.Sel.Name] {
			return fmt.Sprintf("a pure package uses the global rand.%s: take a *rand.Rand as an argument", n.Sel.Name)
		}
	}
	return ""
}

// importNames maps the names that a file gives to its imports to their paths.
func importNames(file *ast.File) map[string]string {
	names := make(map[string]string, len(file.Imports))
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has accepted it, so it is a string
		}
		name := path.Base(strings.TrimSuffix(p, "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}
