package arch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Load asks the go command for every package of the module in root. A package that does not build is listed as far as
// it parses: the compiler reports the rest.
func Load(ctx context.Context, root string) ([]Package, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-e",
		"-json=ImportPath,Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of %s: %w: %s", root, err, stderr.String())
	}
	return decode(out)
}

// Linked asks the go command for all packages that a package of the module in root imports, directly or not, without
// the standard library.
func Linked(ctx context.Context, root, pkg string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./"+pkg)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list what %s links: %w", pkg, err)
	}
	return strings.Fields(string(out)), nil
}

func decode(out []byte) ([]Package, error) {
	var packages []Package
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p struct {
			ImportPath, Dir                              string
			GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
			Imports, TestImports, XTestImports           []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the output of go list: %w", err)
		}
		path, ours := relative(p.ImportPath)
		if !ours {
			return nil, fmt.Errorf("go list named %s, which is no package of %s", p.ImportPath, Module)
		}
		packages = append(packages, Package{
			Path:        path,
			Dir:         p.Dir,
			Files:       slices.Concat(p.GoFiles, p.CgoFiles),
			TestFiles:   slices.Concat(p.TestGoFiles, p.XTestGoFiles),
			Imports:     p.Imports,
			TestImports: slices.Concat(p.TestImports, p.XTestImports),
		})
	}
}

// HasDoc reports whether one of the package's files has a package doc of more than a few words. A package with only
// tests has it in a test file.
func HasDoc(p Package) (bool, error) {
	const few = 40 // bytes: "Package x" alone says nothing
	files := p.Files
	if len(files) == 0 {
		files = p.TestFiles
	}
	for _, name := range files {
		path := filepath.Join(p.Dir, name)
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return false, err
		}
		if len(strings.TrimSpace(file.Doc.Text())) > few {
			return true, nil
		}
	}
	return false, nil
}

// ImpureFile does the same as ImpureFiles for one file of a package that is not pure as a whole, and also checks the
// file's imports.
func ImpureFile(rules Rules, root, path string) ([]string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filepath.Join(root, path), nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found := CheckPurity(fset, file)
	for _, spec := range file.Imports {
		found = append(found, checkPureImport(rules, path, strings.Trim(spec.Path.Value, `"`))...)
	}
	return found, nil
}

// ImpureFiles parses the package's files except tests, and returns the findings of CheckPurity.
func ImpureFiles(p Package) ([]string, error) {
	var found []string
	for _, name := range p.Files {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		found = append(found, CheckPurity(fset, file)...)
	}
	return found, nil
}
