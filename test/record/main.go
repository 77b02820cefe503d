// Command record runs the benchmarks that docs/benchmarks.md shows, in rounds, writes what they report to a file of results, and renders
// the page from it.
//
//	go run ./test/record                      # every row, five rounds
//	go run ./test/record -only '^Full/Bulk/'  # some of them, with what they are compared with
//	go run ./test/record -render              # the page, from the file as it is
//
// Each round is one process that runs all chosen benchmarks one after the other, so that those that are compared take turns. A row that
// is measured takes the place of its older figures; all other rows keep theirs, with their own date and commit. -short is for trying:
// it takes sizes of a tenth, and the page says so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// benchPackage has the benchmarks of whole nodes. They repeat their work themselves, so each runs once a round.
const benchPackage = "test/bench"

type options struct {
	only          string
	rounds        int
	short, dry    bool
	render        bool
	timeout       time.Duration
	results, page string
	work          string
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "measure the rows whose benchmark matches this regular expression, and what they are compared with")
	flag.IntVar(&o.rounds, "rounds", 5, "how often each row is measured")
	flag.BoolVar(&o.short, "short", false, "sizes of a tenth, to see that all works")
	flag.BoolVar(&o.dry, "list", false, "list the rows that would be measured")
	flag.BoolVar(&o.render, "render", false, "measure nothing, and render the page")
	flag.DurationVar(&o.timeout, "timeout", 2*time.Hour, "for one round")
	flag.StringVar(&o.results, "results", "docs/benchmarks.json", "the file of results")
	flag.StringVar(&o.page, "page", "docs/benchmarks.md", "the page")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := record(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// record measures the chosen rows, if any, and renders the page.
func record(ctx context.Context, o options, out io.Writer) error {
	old, err := load(o.results)
	if err != nil {
		return err
	}
	if o.render {
		return writePage(o.page, old)
	}
	rows, err := chosen(topics, o.only)
	if err != nil {
		return err
	}
	if o.dry {
		for _, r := range rows {
			fmt.Fprintf(out, "%-32s %s\n", r.bench, r.name)
		}
		return nil
	}
	run, err := newRun(o)
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r row) bool {
		_, there := run.Versions[r.needs]
		if r.needs != "" && !there {
			fmt.Fprintf(out, "%s is left out: there is no %s here\n", r.bench, r.needs)
		}
		return r.needs != "" && !there
	})
	if o.work, err = os.MkdirTemp("", "troupe-record-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.work)
	var problems error
	for round := 1; round <= o.rounds && ctx.Err() == nil; round++ {
		fmt.Fprintf(out, "round %d of %d\n", round, o.rounds)
		problems = errors.Join(problems, measure(ctx, o, rows, round, &run, out))
		merged := old.merge(run)
		if err := errors.Join(merged.save(o.results), writePage(o.page, merged)); err != nil {
			return err
		}
	}
	return errors.Join(problems, ctx.Err())
}

// newRun describes the run before its first round.
func newRun(o options) (run Run, err error) {
	run = Run{Date: time.Now().UTC().Truncate(time.Second), Command: command(o.only, o.rounds, o.short), Short: o.short, Settings: settings(),
		Load: loadAverage(), Versions: versions(), Rows: map[string][]Round{}}
	if run.Machine, err = thisMachine(); err != nil {
		return run, err
	}
	run.Commit, err = commit()
	return run, err
}

// command is the command that repeats the run.
func command(only string, rounds int, short bool) string {
	line := fmt.Sprintf("go run ./test/record -rounds %d", rounds)
	if short {
		line += " -short"
	}
	if only != "" {
		line += " -only '" + only + "'"
	}
	return line
}

// chosen are the rows to measure: those that match, and their peers, each benchmark once.
func chosen(all []topic, only string) ([]row, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	wanted := map[string]bool{}
	each(all, func(r row) {
		if pattern.MatchString(r.bench) {
			wanted[r.bench] = true
			wanted[r.peer] = true
		}
	})
	var rows []row
	each(all, func(r row) {
		if wanted[r.bench] {
			delete(wanted, r.bench)
			rows = append(rows, r)
		}
	})
	if len(rows) == 0 {
		return nil, fmt.Errorf("no row's benchmark matches %q; -list shows them", only)
	}
	return rows, nil
}

func each(all []topic, f func(row)) {
	for _, t := range all {
		for _, r := range t.rows {
			f(r)
		}
	}
}

// measure runs one round and adds its figures to the run. The error names the benchmarks that failed or reported nothing.
func measure(ctx context.Context, o options, rows []row, round int, run *Run, out io.Writer) error {
	packages := map[string][]row{}
	for _, r := range rows {
		pkg, _ := r.place()
		packages[pkg] = append(packages[pkg], r)
	}
	var problems error
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		problems = errors.Join(problems, measurePackage(ctx, o, pkg, packages[pkg], round, run, out))
	}
	return problems
}

// place is the folder of the row's package, and the benchmark's name in it.
func (r row) place() (pkg, name string) {
	if pkg, name, found := strings.Cut(r.bench, ":"); found {
		return pkg, name
	}
	return benchPackage, r.bench
}

func measurePackage(ctx context.Context, o options, pkg string, rows []row, round int, run *Run, out io.Writer) error {
	program := filepath.Join(o.work, strings.ReplaceAll(pkg, "/", "-")+".test")
	if _, err := os.Stat(program); err != nil {
		build := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./"+pkg)
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the benchmarks of %s: %w\n%s", pkg, err, text)
		}
	}
	args := []string{"-test.run", "^$", "-test.bench", pattern(rows), "-test.timeout", o.timeout.String()}
	if pkg == benchPackage { // other benchmarks run for a second
		args = append(args, "-test.benchtime", "1x")
	}
	if o.short {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stderr = pkg, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	results := map[string]Round{} // by the benchmark's name in the package
	heard, err := parse(pipe, out, func(m measured) {
		results[m.name] = Round{Number: round, Load: loadAverage(), Values: m.values}
	})
	err = errors.Join(err, cmd.Wait())
	if len(results) == 0 && err != nil {
		return fmt.Errorf("round %d of %s: %w", round, pkg, err)
	}
	run.hear(heard.settings)
	return run.add(rows, round, results, heard)
}

// hear adds the settings that benchmarks have printed.
func (run *Run) hear(settings map[string]string) {
	for name, value := range settings {
		switch name {
		case "goos", "goarch", "pkg":
		case "cpu":
			run.Machine.CPU = value
		default:
			run.Versions[name] = value
		}
	}
}

// add adds the results of rows. A failed row has no figures in this round.
func (run *Run) add(rows []row, round int, results map[string]Round, heard heard) error {
	var problems error
	for _, r := range rows {
		_, name := r.place()
		got, ok := results[name]
		switch {
		case slices.Contains(heard.failed, name):
			problems = errors.Join(problems, fmt.Errorf("round %d: %s has failed", round, r.bench))
		case !ok:
			problems = errors.Join(problems, fmt.Errorf("round %d: %s has reported nothing", round, r.bench))
		default:
			run.Rows[r.bench] = append(run.Rows[r.bench], got)
		}
	}
	return problems
}

// pattern is the value of -bench that chooses exactly the benchmarks of the rows.
func pattern(rows []row) string {
	var names []string
	for _, r := range rows {
		_, name := r.place()
		names = append(names, "^Benchmark"+strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^")+"$")
	}
	return strings.Join(names, "|")
}

// writePage writes the page completely or not at all.
func writePage(path string, r Results) error {
	if err := os.WriteFile(path+".new", []byte(render(topics, r)), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
