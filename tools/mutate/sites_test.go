package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = "package p\n\nimport \"fmt\"\n\nconst q = `UPDATE e WHERE e.id = i.id AND e.attempt = i.attempt`\n\n" +
	"func f(a, b int) (c int) {\n\tif a < b && a > 3 {\n\t\tc = a + b\n\t\tfmt.Println(c)\n\t}\n\treturn c\n}\n"

// Every kind of mutation is found, and each changes one place and nothing else.
func TestSites(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(sample), 0o644); err != nil {
		t.Fatal(err)
	}
	sites, err := sitesOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, s := range sites {
		if string(s.apply()) == sample {
			t.Errorf("%s changes nothing", s.what)
		}
		all = append(all, string(s.apply()))
	}
	for _, want := range []string{
		"if !(a < b && a > 3) {", "a < b || a > 3", "a <= b && a > 3", "a < b && a >= 3", "a > 4", "c = a - b",
		"\t\t\n\t\tfmt.Println(c)", "c = a + b\n\t\t\n", "WHERE e.id = i.id`",
	} {
		found := false
		for _, text := range all {
			found = found || strings.Contains(text, want)
		}
		if !found {
			t.Errorf("no mutation gives %q", want)
		}
	}
}

func TestReport(t *testing.T) {
	var b strings.Builder
	err := report(&b, 7, []string{"./a=2"}, []trial{
		{site: site{file: "a/x.go", line: 3, what: "a || b: || → &&"}, pkg: "./a", verdict: survived}, {pkg: "./a", verdict: noticed},
	})
	if err != nil || !strings.Contains(b.String(), "| ./a | 2 | 1 | 1 |") || !strings.Contains(b.String(), `| a/x.go:3 | `+"`a \\|\\| b: \\|\\| → &&`") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
