package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// site is one place of a file and what stands there instead.
type site struct {
	path, file string // absolute, and as shown
	line       int
	what       string
	source     []byte
	from, to   int // the bytes that are replaced
	with       string
}

func (s site) apply() []byte {
	return []byte(string(s.source[:s.from]) + s.with + string(s.source[s.to:]))
}

// sitesOf finds all places of a package's files. Tests, generated files and files behind a build tag are left alone.
func sitesOf(dir string) ([]site, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []site
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		head, _, _ := strings.Cut(string(source), "package ")
		if strings.HasSuffix(path, "_test.go") || strings.Contains(head, "DO NOT EDIT") || strings.Contains(head, "//go:build") {
			continue
		}
		sites, err := sitesIn(path, source)
		if err != nil {
			return nil, err
		}
		all = append(all, sites...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has nothing to change", dir)
	}
	return all, nil
}

func sitesIn(path string, source []byte) ([]site, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := finder{files: files, base: site{path: path, file: filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)), source: source}}
	ast.Inspect(parsed, f.visit)
	return f.found, nil
}

type finder struct {
	files *token.FileSet
	base  site
	found []site
}

func (f *finder) add(from, to token.Pos, with, what string) {
	s := f.base
	at := f.files.Position(from)
	s.line, s.from, s.to, s.with, s.what = at.Line, at.Offset, f.files.Position(to).Offset, with, what
	f.found = append(f.found, s)
}

func (f *finder) text(n ast.Node) string {
	return string(f.base.source[f.files.Position(n.Pos()).Offset:f.files.Position(n.End()).Offset])
}

// swapped are the operators that take each other's place.
var swapped = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+",
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.CallExpr:
		return !logs(n) // what a log line says is not what the tests hold
	case *ast.IfStmt:
		cond := f.text(n.Cond)
		f.add(n.Cond.Pos(), n.Cond.End(), "!("+cond+")", "if "+short(cond)+" → its opposite")
	case *ast.BinaryExpr:
		if with, ok := swapped[n.Op]; ok && !isText(n) {
			f.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), with, short(f.text(n))+": "+n.Op.String()+" → "+with)
		}
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok && !logs(call) {
			f.add(n.Pos(), n.End(), "", "left out: "+short(f.text(n)))
		}
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			f.add(n.Pos(), n.End(), "", "left out: "+short(f.text(n)))
		}
	case *ast.BasicLit:
		f.literal(n)
	}
	return true
}

func (f *finder) literal(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		if v, err := strconv.Atoi(n.Value); err == nil {
			f.add(n.Pos(), n.End(), strconv.Itoa(v+1), fmt.Sprintf("%d → %d", v, v+1))
		}
	case token.STRING:
		if !strings.HasPrefix(n.Value, "`") {
			return
		}
		for _, at := range clause.FindAllStringIndex(n.Value, -1) {
			f.add(n.Pos()+token.Pos(at[0]), n.Pos()+token.Pos(at[1]), "", "left out: "+short(n.Value[at[0]:at[1]]))
		}
	}
}

// clause is one simple AND of an SQL statement.
var clause = regexp.MustCompile(` AND [a-z_]+\.[a-z_]+ (?:=|<>|<|>|<=|>=) (?:[a-z_]+\.[a-z_]+|\$\d+|\d+|now\(\))`)

// isText reports whether an expression joins strings, where - is no operator.
func isText(n *ast.BinaryExpr) bool {
	text := false
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text = true
		}
		return !text
	})
	return text && n.Op == token.ADD
}

// logs reports whether a call writes to the log.
func logs(n *ast.CallExpr) bool {
	s, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch s.Sel.Name {
	case "Trace", "Debug", "Info", "Warn", "Error":
		return len(n.Args) > 0
	}
	return false
}

const shortMax = 70

func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > shortMax {
		return text[:shortMax] + "…"
	}
	return text
}
