package arch

import (
	"fmt"
	"strings"
)

// Rules is the content of order.txt.
type Rules struct {
	Order  []Layer
	Pure   []string // package patterns
	Fences []Fence
	Links  []Link
	// TestOnly are import paths for test files and for the packages of TestPackages.
	TestOnly     []string
	TestPackages []string
}

// Layer is one line of the order: packages that may import those of the lines before it, and the reason.
type Layer struct {
	Patterns []string
	Reason   string
}

// Fence says which packages may import a dependency, and why no others may.
type Fence struct {
	Dependency string
	Allowed    []string // package patterns
	Reason     string
}

// Link lists all that a package may import, directly or not, besides the standard library, and the reason for the
// limit.
type Link struct {
	Package string
	Allowed []string // patterns of packages of the module, and dependencies
	Reason  string
}

// ParseRules reads the text of order.txt. An error names the line.
func ParseRules(text string) (Rules, error) {
	var rules Rules
	section := ""
	for i, line := range strings.Split(text, "\n") {
		body, reason, _ := strings.Cut(line, "#")
		body, reason = strings.TrimSpace(body), strings.TrimSpace(reason)
		if body == "" {
			continue
		}
		if strings.HasPrefix(body, "[") {
			section = body
			continue
		}
		if err := rules.add(section, body, reason); err != nil {
			return Rules{}, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return rules, nil
}

func (r *Rules) add(section, body, reason string) error {
	head, tail, colon := strings.Cut(body, ":")
	switch section {
	case "[order]":
		if reason == "" {
			return fmt.Errorf("%q has no reason: add it after a #", body)
		}
		r.Order = append(r.Order, Layer{Patterns: strings.Fields(body), Reason: reason})
	case "[pure]":
		r.Pure = append(r.Pure, strings.Fields(body)...)
	case "[fences]":
		if !colon || reason == "" {
			return fmt.Errorf("%q is no fence: want dependency: packages # reason", body)
		}
		r.Fences = append(r.Fences, Fence{Dependency: head, Allowed: strings.Fields(tail), Reason: reason})
	case "[links]":
		if !colon || reason == "" {
			return fmt.Errorf("%q is no list of links: want package: packages # reason", body)
		}
		r.Links = append(r.Links, Link{Package: head, Allowed: strings.Fields(tail), Reason: reason})
	case "[tests]":
		if colon && head == "in" {
			r.TestPackages = append(r.TestPackages, strings.Fields(tail)...)
			return nil
		}
		r.TestOnly = append(r.TestOnly, strings.Fields(body)...)
	default:
		return fmt.Errorf("%q stands in section %q, want [order], [pure], [fences], [links] or [tests]", body, section)
	}
	return nil
}

// place finds the line of the order that a package stands on, and the pattern that put it there. The longest pattern
// wins, so that a package can be taken out of a wider "...".
func (r *Rules) place(pkg string) (layer int, pattern string, ok bool) {
	layer = -1
	for i, l := range r.Order {
		for _, p := range l.Patterns {
			if matches(p, pkg) && (layer < 0 || len(p) > len(pattern)) {
				layer, pattern = i, p
			}
		}
	}
	return layer, pattern, layer >= 0
}

// matches reports whether pkg, relative to the module, is what the pattern names.
func matches(pattern, pkg string) bool {
	base, wide := strings.CutSuffix(pattern, "/...")
	return pkg == base || wide && strings.HasPrefix(pkg, base+"/")
}

func matchesAny(patterns []string, pkg string) bool {
	for _, p := range patterns {
		if matches(p, pkg) {
			return true
		}
	}
	return false
}

// within reports whether the import path is the dependency or one of its packages.
func within(dependency, path string) bool {
	return path == dependency || strings.HasPrefix(path, dependency+"/")
}

// IsTest reports whether a package is only for tests.
func (r *Rules) IsTest(pkg string) bool { return matchesAny(r.TestPackages, pkg) }
