package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// write writes the report: a row for each package, and one for each mutation that no test noticed.
func write(root, out string, seed uint64, args []string, all []trial) error {
	if out == "" {
		return report(os.Stdout, seed, args, all)
	}
	file, err := os.Create(filepath.Join(root, out))
	if err != nil {
		return err
	}
	if err := report(file, seed, args, all); err != nil {
		return err
	}
	return file.Close()
}

func report(to io.Writer, seed uint64, args []string, all []trial) error {
	var b strings.Builder
	fmt.Fprintf(&b, "    go -C tools run ./mutate -seed %d %s\n\n", seed, strings.Join(args, " "))
	b.WriteString("| package | mutations | noticed | survived |\n|---|---|---|---|\n")
	var order []string
	tried, lived := map[string]int{}, map[string]int{}
	for _, t := range all {
		if tried[t.pkg] == 0 {
			order = append(order, t.pkg)
		}
		tried[t.pkg]++
		if t.verdict == survived {
			lived[t.pkg]++
		}
	}
	for _, pkg := range order {
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", pkg, tried[pkg], tried[pkg]-lived[pkg], lived[pkg])
	}
	b.WriteString("\n| survived | mutation |\n|---|---|\n")
	for _, t := range all {
		if t.verdict == survived {
			fmt.Fprintf(&b, "| %s:%d | `%s` |\n", t.file, t.line, strings.NewReplacer("|", "\\|", "`", "'").Replace(t.what))
		}
	}
	_, err := io.WriteString(to, b.String())
	return err
}
