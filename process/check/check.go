// Package check tests a program against every rule of docs/protocol.md, by name, as `troupe worker check -- CMD` does.
// It owns the rules, the conversation with the program and the table of findings. It tests how the program speaks the
// protocol, and never what an action does. It starts programs only through a process.Launcher.
//
// Its tests take long: they run every rule on a worker of each language and on broken workers, and some rules wait for
// silence.
package check

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/process"
)

// Options says what the program runs. Zero fields mean their defaults.
type Options struct {
	// Action is the name of the action to execute. Empty means check.none; then an error passes as well as a result.
	Action     string
	Entrypoint string          // file:function, where the program loads files
	Root       string          // the pack's folder, absolute
	Parameters json.RawMessage // of the action; empty: {}
	// BusyParameters make the action run for some seconds, for the rules about requests during a run. Empty means
	// Parameters; those rules are then not tested when the run ends at once.
	BusyParameters json.RawMessage
	Env            []string // KEY=value, added to PATH, HOME, the locale and the TROUPE_ variables of a worker
	Rules          []string // only these and hello; empty: all. Rules about every answer use the answers that the other rules got
	// InitTimeout bounds the answer to hello; 0: 30 s.
	InitTimeout time.Duration
	// Patience bounds every other answer; 0: 5 s.
	Patience time.Duration
}

func (o Options) withDefaults() Options {
	if o.InitTimeout <= 0 {
		o.InitTimeout = 30 * time.Second
	}
	if o.Patience <= 0 {
		o.Patience = 5 * time.Second
	}
	if len(o.Parameters) == 0 {
		o.Parameters = json.RawMessage("{}")
	}
	if len(o.BusyParameters) == 0 {
		o.BusyParameters = o.Parameters
	}
	return o
}

// Verdict is the outcome of one rule.
type Verdict string

// The verdicts.
const (
	Passed      Verdict = "passed"
	Failed      Verdict = "failed"
	NotDeclared Verdict = "not declared" // the program's hello does not declare it, so a node never asks for it
	NotTested   Verdict = "not tested"   // the finding's detail says what is missing
)

// Finding is one rule's verdict. Detail says what was seen; Advice, on a failure, what to do.
type Finding struct {
	Rule    string  `json:"rule"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail,omitempty"`
	Advice  string  `json:"advice,omitempty"`
}

// Report is every rule's finding, in the order of the rules.
type Report struct {
	Argv     []string  `json:"argv"`
	Findings []Finding `json:"findings"`
}

// Passed reports whether no rule failed.
func (r Report) Passed() bool {
	for _, f := range r.Findings {
		if f.Verdict == Failed {
			return false
		}
	}
	return true
}

// Find returns the finding of the rule of that name; ok is false where there is none.
func (r Report) Find(rule string) (f Finding, ok bool) {
	for _, f := range r.Findings {
		if f.Rule == rule {
			return f, true
		}
	}
	return Finding{}, false
}

// Run starts argv as often as the rules need it, tests each rule and writes a table to out. The error is about the
// check itself: no program was named, the context ended, or a write to out failed. A rule that the program breaks is in
// the Report.
func Run(ctx context.Context, launcher process.Launcher, argv []string, opts Options, out io.Writer) (Report, error) {
	if len(argv) == 0 {
		return Report{}, fmt.Errorf("worker check: no program is named: troupe worker check -- CMD [ARG…]")
	}
	chosen, err := choose(opts.Rules)
	if err != nil {
		return Report{}, err
	}
	c := &checker{launcher: launcher, argv: argv, opts: opts.withDefaults()}
	defer c.stop()
	report := Report{Argv: argv}
	for _, r := range chosen {
		if err := ctx.Err(); err != nil {
			return report, fmt.Errorf("worker check: rule %s: %w", r.name, err)
		}
		report.Findings = append(report.Findings, c.testRule(ctx, r))
	}
	return report, write(out, report)
}

// choose returns the rules of those names and hello, in the order of testing.
func choose(names []string) ([]rule, error) {
	all := rules()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []rule
	known := make([]string, 0, len(all))
	for _, r := range all {
		known = append(known, r.name)
		if r.name == all[0].name || slices.Contains(names, r.name) {
			chosen = append(chosen, r)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("worker check: there is no rule %q: want one of %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// write prints the table: one line for each rule, and the advice below each failed rule.
func write(out io.Writer, report Report) error {
	var b strings.Builder
	count := map[Verdict]int{}
	for _, f := range report.Findings {
		count[f.Verdict]++
		fmt.Fprintf(&b, "%-13s %-16s %s\n", f.Verdict, f.Rule, f.Detail)
		if f.Advice != "" {
			fmt.Fprintf(&b, "%-13s %-16s → %s\n", "", "", f.Advice)
		}
	}
	fmt.Fprintf(&b, "%s: %d passed, %d failed, %d not declared, %d not tested\n", clip([]byte(strings.Join(report.Argv, " "))),
		count[Passed], count[Failed], count[NotDeclared], count[NotTested])
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("worker check: write the table: %w", err)
	}
	return nil
}
