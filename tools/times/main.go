// Command times shows what go test -json tells as go test alone would show it, and then where the time went.
//
//	go test -json ./... | go -C tools run ./times
//
// A package gets its ordinary line, and a test that fails its ordinary text; what a test that passes has written is left out. At the
// end stand the slowest packages and tests, what each test that failed has said of it once more, without the log of a node, and each package that took longer than the limit although its doc gives no reason for
// it. A reason is a sentence of the package doc that begins with "Its tests take long:". What ran at another time, and is only
// repeated, is not listed.
//
// With -strict a package without a reason is an error: on a machine that does nothing else the limit holds, on a busy one it
// may not.
//
// What go test -json tells of a failure is a failure here too, so that the end of a pipe can be trusted.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	module = "github.com/troupe-run/troupe"
	reason = "Its tests take long:"
)

func main() {
	root := flag.String("root", "..", "the module's folder")
	limit := flag.Duration("limit", 20*time.Second, "how long a package's tests may take without a reason in its doc")
	strict := flag.Bool("strict", false, "fail where a package takes longer without a reason")
	top := flag.Int("top", 10, "how many packages and tests are listed")
	flag.Parse()
	r := newReport(os.Stdout)
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "times:", err)
		os.Exit(1)
	}
	unexplained := r.slowest(*top, *limit, func(pkg string) string { return reasonOf(*root, pkg) })
	r.again()
	if r.failed || *strict && unexplained {
		os.Exit(1)
	}
}

// event is one line of go test -json.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of what did not compile
	Elapsed                       float64
}

// timed is a package or a test that has ended.
type timed struct {
	pkg, test string
	seconds   float64
}

type report struct {
	out      io.Writer
	began    time.Time
	failed   bool
	tests    []timed
	packages []timed
	held     map[timed][]string // what a package's test that runs has written
	parents  map[timed]bool     // tests with tests of their own: their time is that of those
	cached   map[string]bool    // packages whose tests ran at another time
	failures []failure          // failuresMax at most
}

// failure is what a test that failed has said of it.
type failure struct {
	of    timed
	lines []string
}

// What is said once more of failures, at most.
const (
	failuresMax = 20
	linesMax    = 30 // of one
)

// logged is a line of a node's log.
var logged = regexp.MustCompile(`\d{4}-\d\d-\d\dT\S+ \[(TRACE|DEBUG|INFO|WARN|ERROR)\]`)

func newReport(out io.Writer) *report {
	return &report{out: out, began: time.Now(), held: map[timed][]string{}, parents: map[timed]bool{}, cached: map[string]bool{}}
}

// read shows what go test would, while it comes.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (r *report) line(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		fmt.Fprintf(r.out, "%s", line) // the go command's own words
		return
	}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.out, e.Output)
	case e.Action == "build-fail":
		r.failed = true
	case e.Test != "":
		r.test(e)
	case e.Action == "output" && strings.TrimSpace(e.Output) != "PASS":
		r.cached[e.Package] = r.cached[e.Package] || strings.HasSuffix(strings.TrimSpace(e.Output), "(cached)")
		fmt.Fprint(r.out, e.Output)
	case e.Action == "fail" || e.Action == "pass":
		r.failed = r.failed || e.Action == "fail"
		r.packages = append(r.packages, timed{pkg: e.Package, seconds: e.Elapsed})
		r.unended(e.Package)
	}
}

func (r *report) test(e event) {
	key := timed{pkg: e.Package, test: e.Test}
	switch e.Action {
	case "run":
		r.held[key] = nil
		if i := strings.LastIndexByte(e.Test, '/'); i > 0 {
			r.parents[timed{pkg: e.Package, test: e.Test[:i]}] = true
		}
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			r.held[key] = append(r.held[key], e.Output)
		}
	case "pass", "skip", "fail":
		if e.Action == "fail" {
			r.failed = true
			fmt.Fprint(r.out, strings.Join(r.held[key], ""))
			r.keep(key)
		}
		delete(r.held, key)
		r.tests = append(r.tests, timed{key.pkg, key.test, e.Elapsed})
	}
}

// unended shows what tests have written that were running when their package ended: one of them may have brought it down.
func (r *report) unended(pkg string) {
	for key, text := range r.held {
		if key.pkg == pkg {
			fmt.Fprint(r.out, strings.Join(text, ""))
			r.keep(key)
			delete(r.held, key)
		}
	}
}

// keep keeps what a test that failed has said, for the end.
func (r *report) keep(key timed) {
	lines := slices.DeleteFunc(slices.Clone(r.held[key]), func(line string) bool {
		return logged.MatchString(line) || strings.HasPrefix(strings.TrimSpace(line), "--- FAIL")
	})
	if len(lines) > 0 && len(r.failures) < failuresMax {
		r.failures = append(r.failures, failure{key, lines[:min(len(lines), linesMax)]})
	}
}

// again shows once more what failed: the text of a test can be far above, and a machine may keep only the end.
func (r *report) again() {
	for _, f := range r.failures {
		fmt.Fprintf(r.out, "\nfailed: %s %s\n%s", short(f.of.pkg), f.of.test, strings.Join(f.lines, ""))
	}
}

// slowest lists where the time went, and reports whether a package is slow without a reason.
func (r *report) slowest(top int, limit time.Duration, reasonOf func(string) string) bool {
	last := func(a, b timed) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), strings.Compare(a.pkg+a.test, b.pkg+b.test))
	}
	packages := slices.DeleteFunc(slices.Clone(r.packages), func(p timed) bool { return r.cached[p.pkg] })
	leaves := slices.DeleteFunc(slices.Clone(r.tests), func(t timed) bool {
		return r.cached[t.pkg] || r.parents[timed{pkg: t.pkg, test: t.test}]
	})
	slices.SortFunc(leaves, last)
	slices.SortFunc(packages, last)
	fmt.Fprintf(r.out, "\nwhere %s went, in seconds:\n", time.Since(r.began).Round(time.Second))
	var unexplained []string
	for i, p := range packages {
		why, slow := "", p.seconds > limit.Seconds()
		if slow {
			if why = reasonOf(p.pkg); why == "" {
				unexplained = append(unexplained, short(p.pkg))
			}
		}
		if i < top {
			fmt.Fprintf(r.out, "  %7.1f  %s  %s\n", p.seconds, short(p.pkg), why)
		}
	}
	fmt.Fprintln(r.out)
	for _, t := range leaves[:min(top, len(leaves))] {
		if t.seconds < 0.1 {
			break
		}
		fmt.Fprintf(r.out, "  %7.1f  %s %s\n", t.seconds, short(t.pkg), t.test)
	}
	if len(unexplained) > 0 {
		fmt.Fprintf(r.out, "\nslower than %s, and the package doc has no sentence that begins with %q: %s\n",
			limit, reason, strings.Join(unexplained, ", "))
	}
	return len(unexplained) > 0
}

func short(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

// reasonOf is the sentence of a package's doc that says why its tests take long; empty without one.
func reasonOf(root, pkg string) string {
	files, err := filepath.Glob(filepath.Join(root, short(pkg), "*.go"))
	if err != nil {
		return ""
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			continue
		}
		text := strings.Join(strings.Fields(file.Doc.Text()), " ")
		if _, why, found := strings.Cut(text, reason); found {
			sentence, _, _ := strings.Cut(why, ".")
			return strings.TrimSpace(sentence)
		}
	}
	return ""
}
