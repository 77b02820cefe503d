// Command shape measures how the program is built: its biggest types, its lines, what its folders import, what its clients
// link, and which files one execution crosses.
//
//	go -C tools run ./shape
//	go -C tools run ./shape -way=false before=/path/of/another/checkout after=..
//
// Each argument names a checkout and the column in which its figures stand; without one, this checkout is measured. The output
// is a table in Markdown. docs/lab/house.md keeps the figures of the states before and after the folders were put in order.
//
// Generated files, tests, the packages that only tests import, and tools/ are left out. What one execution crosses is counted
// and not read: a troupe that is built for coverage runs some executions one after the other, and a file counts when something
// in it ran at least once for each of them. -way=false leaves that out.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	withWay := flag.Bool("way", true, "count what one execution crosses: builds a troupe, which takes minutes the first time")
	detail := flag.Bool("files", false, "list the files that one execution crosses too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, flag.Args(), *withWay, *detail); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

// row is one measure of a checkout.
type row struct{ name, value string }

func run(ctx context.Context, out io.Writer, args []string, withWay, detail bool) error {
	if len(args) == 0 {
		args = []string{"value=.."}
	}
	var columns []string
	var measured [][]row
	for _, arg := range args {
		column, root, found := strings.Cut(arg, "=")
		if !found {
			return fmt.Errorf("%q: want the name of a column and a checkout, as in before=/path", arg)
		}
		root, err := filepath.Abs(root)
		if err != nil {
			return err
		}
		rows, err := measure(ctx, out, root, withWay, detail)
		if err != nil {
			return fmt.Errorf("measure %s: %w", root, err)
		}
		columns, measured = append(columns, column), append(measured, rows)
	}
	return table(out, columns, measured)
}

// measure returns the same rows, in the same order, for every checkout.
func measure(ctx context.Context, out io.Writer, root string, withWay, detail bool) ([]row, error) {
	house, err := read(root)
	if err != nil {
		return nil, err
	}
	rows := append(house.sizes(), house.folders()...)
	linked, err := links(ctx, root, house.module)
	if err != nil {
		return nil, err
	}
	rows = append(rows, linked...)
	if !withWay {
		return rows, nil
	}
	ways, err := crossed(ctx, root)
	if err != nil {
		return nil, err
	}
	if detail {
		for _, w := range ways {
			fmt.Fprintf(out, "%s:\n  %s\n", w.action, strings.Join(w.files, "\n  "))
		}
	}
	return append(rows, wayRows(ways)...), nil
}

func table(out io.Writer, columns []string, measured [][]row) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for i, r := range measured[0] {
		values := make([]string, len(measured))
		for j := range measured {
			values[j] = measured[j][i].value
		}
		fmt.Fprintf(&b, "| %s | %s |\n", r.name, strings.Join(values, " | "))
	}
	_, err := io.WriteString(out, b.String())
	return err
}
