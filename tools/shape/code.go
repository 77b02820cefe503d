package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// left are folders that are no part of the product: tests, and what only tests or people who build it use.
var left = []string{"test", "tools", "store/storetest", "broker/brokertest", "bin", "data"}

// house is a checkout, read.
type house struct {
	module string
	files  []file
	types  map[string]*kind // by package and name
}

// file is one file of the product.
type file struct {
	path      string // relative to the checkout
	folder    string
	lines     int // all of them
	code      int // neither blank nor only a comment
	comments  int
	imports   []string // of the module, as folders
	functions []int    // the lines of each
	receives  []position
}

// position is where the body of an actor's method Receive begins.
type position struct {
	name       string // of the actor
	first, col int
}

// kind is one type with its methods and, where it is a struct, its fields.
type kind struct {
	name            string
	methods, fields int
}

// read parses every file of the product.
func read(root string) (*house, error) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(mod), "module ")
	h := &house{module: strings.Fields(rest)[0], types: map[string]*kind{}}
	err = filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); p != root && (strings.HasPrefix(name, ".") || name == "testdata" || slices.Contains(left, rel)) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		return h.add(p, rel)
	})
	return h, err
}

func (h *house) add(p, rel string) error {
	text, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, rel, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(tree) {
		return nil
	}
	f := file{path: rel, folder: path.Dir(rel), lines: bytes.Count(text, []byte("\n"))}
	f.code, f.comments = linesOf(text)
	for _, spec := range tree.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if name == h.module {
			f.imports = append(f.imports, ".")
		} else if folder, ours := strings.CutPrefix(name, h.module+"/"); ours {
			f.imports = append(f.imports, folder)
		}
	}
	for _, d := range tree.Decls {
		h.declare(set, &f, d)
	}
	h.files = append(h.files, f)
	return nil
}

// declare counts a declaration's methods, fields and lines.
func (h *house) declare(set *token.FileSet, f *file, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		f.functions = append(f.functions, set.Position(d.End()).Line-set.Position(d.Pos()).Line+1)
		if d.Recv != nil {
			k := h.kind(f.folder, receiver(d.Recv.List[0].Type))
			k.methods++
			if d.Name.Name == "Receive" && d.Body != nil {
				at := set.Position(d.Body.Lbrace)
				f.receives = append(f.receives, position{k.name, at.Line, at.Column})
			}
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			spec, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if body, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range body.Fields.List {
					h.kind(f.folder, spec.Name.Name).fields += max(1, len(field.Names))
				}
			}
		}
	}
}

func (h *house) kind(folder, name string) *kind {
	key := folder + "." + name
	if h.types[key] == nil {
		h.types[key] = &kind{name: key}
	}
	return h.types[key]
}

// receiver is the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// linesOf counts the lines that hold code, and those that hold a comment and no code.
func linesOf(text []byte) (code, comments int) {
	set := token.NewFileSet()
	f := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(f, text, nil, scanner.ScanComments)
	holds := map[int]bool{} // line: whether code stands on it
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue // put in by the scanner
		}
		first := f.Line(pos)
		for line := first; line <= first+strings.Count(lit, "\n"); line++ {
			holds[line] = holds[line] || tok != token.COMMENT
		}
	}
	for _, isCode := range holds {
		if isCode {
			code++
		}
	}
	return code, len(holds) - code
}

const top = 5 // of the biggest types

// sizes are the measures of types, functions and files.
func (h *house) sizes() []row {
	var lines, code, comments, long, longest, longFiles int
	for _, f := range h.files {
		lines, code, comments = lines+f.lines, code+f.code, comments+f.comments
		if f.lines > 400 {
			longFiles++
		}
		for _, n := range f.functions {
			longest = max(longest, n)
			if n > 40 {
				long++
			}
		}
	}
	kinds := slices.Collect(maps.Values(h.types))
	over := 0
	for _, k := range kinds {
		if k.fields > 20 {
			over++
		}
	}
	return []row{
		{"biggest types, methods", biggest(kinds, func(k *kind) int { return k.methods })},
		{"biggest types, fields", biggest(kinds, func(k *kind) int { return k.fields })},
		{"types with more than 20 fields", fmt.Sprint(over)},
		{"files", fmt.Sprint(len(h.files))},
		{"lines", thousands(lines)},
		{"lines with code", thousands(code)},
		{"lines that are comments", fmt.Sprintf("%s (%d %% of both)", thousands(comments), 100*comments/max(1, code+comments))},
		{"functions over 40 lines", fmt.Sprintf("%d, the longest has %d", long, longest)},
		{"files over 400 lines", fmt.Sprint(longFiles)},
	}
}

func biggest(kinds []*kind, size func(*kind) int) string {
	slices.SortFunc(kinds, func(a, b *kind) int { return cmp.Or(size(b)-size(a), strings.Compare(a.name, b.name)) })
	var names []string
	for _, k := range kinds[:min(top, len(kinds))] {
		names = append(names, fmt.Sprintf("`%s` %d", k.name, size(k)))
	}
	return strings.Join(names, ", ")
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
