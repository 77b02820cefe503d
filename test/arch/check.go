package arch

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the path of the module under test.
const Module = "github.com/troupe-run/troupe"

// Package describes one package of the module for the checks.
type Package struct {
	Path        string   // relative to the module; "." for the root
	Dir         string   // absolute
	Files       []string // names of the Go files without the tests
	TestFiles   []string
	Imports     []string // of Files, full paths
	TestImports []string // of TestFiles, full paths
}

// Check returns every place where the packages break the rules on imports, each with the reason.
func Check(rules Rules, packages []Package) []string {
	var found []string
	for _, p := range packages {
		if _, _, ok := rules.place(p.Path); !ok {
			found = append(found, fmt.Sprintf("%s: no line of [order] names it: add it where it belongs", p.Path))
			continue
		}
		for _, path := range p.Imports {
			found = append(found, checkOrder(rules, p.Path, path)...)
			found = append(found, checkFences(rules, p.Path, path)...)
			found = append(found, checkTestOnly(rules, p.Path, path)...)
			found = append(found, checkPureImport(rules, p.Path, path)...)
		}
		for _, path := range p.TestImports {
			found = append(found, checkFences(rules, p.Path, path)...)
		}
	}
	return found
}

func checkOrder(rules Rules, pkg, path string) []string {
	target, ours := relative(path)
	if !ours {
		return nil
	}
	at, pattern, _ := rules.place(pkg)
	to, targetPattern, known := rules.place(target)
	switch {
	case !known:
		return nil // told once, for the target itself
	case to < at:
		return nil
	case to == at && pattern == targetPattern && strings.HasSuffix(pattern, "/..."):
		return nil
	case to == at:
		return []string{fmt.Sprintf("%s imports %s, which stands on the same line of [order]: %s", pkg, target, rules.Order[at].Reason)}
	}
	return []string{fmt.Sprintf("%s imports %s, which stands above it in [order]: %s is for %q, %s for %q",
		pkg, target, pkg, rules.Order[at].Reason, target, rules.Order[to].Reason)}
}

func checkFences(rules Rules, pkg, path string) []string {
	var found []string
	for _, f := range rules.Fences {
		if within(f.Dependency, path) && !matchesAny(f.Allowed, pkg) {
			found = append(found, fmt.Sprintf("%s imports %s, which only %s may: %s",
				pkg, path, strings.Join(f.Allowed, ", "), f.Reason))
		}
	}
	return found
}

func checkTestOnly(rules Rules, pkg, path string) []string {
	if matchesAny(rules.TestPackages, pkg) {
		return nil
	}
	if target, ours := relative(path); ours && matchesAny(rules.TestPackages, target) {
		return []string{fmt.Sprintf("%s imports %s outside its tests: that package is a test", pkg, target)}
	}
	for _, d := range rules.TestOnly {
		if within(d, path) {
			return []string{fmt.Sprintf("%s imports %s outside its tests: it is for tests only", pkg, path)}
		}
	}
	return nil
}

// impure are the parts of the standard library that reach outside a value.
var impure = []string{"os", "net", "log", "sync", "syscall", "unsafe", "runtime", "context", "plugin", "database/sql", "crypto/rand"}

// values are parts of those that reach nowhere: they read texts.
var values = []string{"net/netip", "net/url"}

func checkPureImport(rules Rules, pkg, path string) []string {
	if !matchesAny(rules.Pure, pkg) {
		return nil
	}
	target, ours := relative(path)
	switch {
	case ours && (target == "messages" || matchesAny(rules.Pure, target)):
		return nil
	case ours:
		return []string{fmt.Sprintf("%s is pure and imports %s, which is not", pkg, target)}
	case strings.Contains(strings.SplitN(path, "/", 2)[0], "."):
		return []string{fmt.Sprintf("%s is pure and imports %s: want messages and the standard library", pkg, path)}
	}
	for _, d := range impure {
		if within(d, path) && !slices.Contains(values, path) {
			return []string{fmt.Sprintf("%s is pure and imports %s: take what it gives as an argument", pkg, path)}
		}
	}
	return nil
}

// CheckLinks returns the imports of the link's package that are not allowed. Linked are import paths, without the
// standard library.
func CheckLinks(link Link, linked []string) []string {
	var found []string
	for _, path := range linked {
		target, ours := relative(path)
		allowed := ours && (target == link.Package || matchesAny(link.Allowed, target))
		for _, d := range link.Allowed {
			allowed = allowed || !ours && within(d, path)
		}
		if !allowed {
			found = append(found, fmt.Sprintf("%s links %s: %s", link.Package, path, link.Reason))
		}
	}
	return found
}

// relative turns an import path of the module into a path relative to it.
func relative(path string) (string, bool) {
	if path == Module {
		return ".", true
	}
	return strings.CutPrefix(path, Module+"/")
}
