package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const head = `# Benchmarks

This page is rendered from [benchmarks.json](benchmarks.json), which ` + "`make bench`" + ` writes. Each figure is the median of its rounds, and
the range of all rounds follows it. Everything has its defaults and is durable, unless a row says otherwise. A round ends when every outcome is stored
and, with RabbitMQ, its notice is sent.

Rates depend on the machine and its other load. Compare only rows of the same run: in each round they are measured one after the other. *Times* is the
ratio of a row to its peer: the median of all rounds. *CPU* is the time that the program and its servers (Postgres and RabbitMQ, or Redis) use together for 10,000 executions, in
seconds, and that of each follows it. Callers in the node's process count as part of the node. Callers over HTTP are not counted.

` + "`go run ./test/record -only REGEXP`" + ` measures the rows whose benchmark matches, and their peers. ` + "`-list`" + ` lists
them. ` + "`-short`" + ` is for a trial. A row that is measured again replaces the older one.
`

// render makes the page.
func render(all []topic, r Results) string {
	var b strings.Builder
	b.WriteString(head)
	if len(r.Runs) == 0 {
		b.WriteString("\nNothing has been measured yet.\n")
	} else {
		renderChoice(&b, all, r)
	}
	var missing strings.Builder
	for _, t := range all {
		for _, m := range renderTopic(&b, t, r) {
			fmt.Fprintf(&missing, "| %s | %s | `%s` |\n", t.title, m.name, m.bench)
		}
	}
	if len(r.Runs) > 0 {
		renderRuns(&b, r)
	}
	if missing.Len() > 0 {
		b.WriteString("\n## Not measured yet\n\n| table | what | benchmark |\n|---|---|---|\n" + missing.String())
	}
	return b.String()
}

// renderRuns describes the machines and versions of the runs.
func renderRuns(b *strings.Builder, r Results) {
	b.WriteString("\n## The runs\n\n| run | date | commit | machine | versions | load before | command |\n|---|---|---|---|---|---|---|\n")
	for i, run := range r.Runs {
		machine := fmt.Sprintf("%d cores, %d GiB, Linux %s, a disk sync of %.2f ms",
			run.Machine.Cores, (run.Machine.Memory+512)/1024, run.Machine.Kernel, run.Machine.SyncMs)
		if run.Machine.CPU != "" {
			machine = run.Machine.CPU + ", " + machine
		}
		var versions []string
		for _, name := range slices.Sorted(maps.Keys(run.Versions)) {
			versions = append(versions, title(name)+" "+run.Versions[name])
		}
		line := "`" + strings.Join(append(slices.Clone(run.Settings), run.Command), " ") + "`"
		if run.Short {
			line += " (**sizes of a tenth**)"
		}
		fmt.Fprintf(b, "| %d | %s | %s | %s | %s | %.1f | %s |\n", i+1, run.Date.Format("2006-01-02 15:04"), run.Commit, machine,
			strings.Join(versions, ", "), run.Load, strings.ReplaceAll(line, "|", "\\|"))
	}
}

// title is a program's name as people write it.
func title(name string) string {
	if known, ok := map[string]string{"postgres": "Postgres", "rabbitmq": "RabbitMQ"}[name]; ok {
		return known
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// renderChoice renders the first table, from the first figure of each row.
func renderChoice(b *strings.Builder, all []topic, r Results) {
	rows := map[string]row{}
	each(all, func(row row) { rows[row.bench] = row })
	var lines strings.Builder
	for _, c := range choice.rows {
		cells, some := []string{c.name}, false
		for _, bench := range c.benches {
			run, rounds := r.row(bench)
			if run == nil {
				cells = append(cells, "–")
				continue
			}
			some = true
			row := rows[bench]
			text := row.show[0].text(medianOf(series(rounds, row.show[0].unit)))
			if times := timesPeer(row, run); len(times) > 0 {
				text += fmt.Sprintf(" (%.2f times)", medianOf(times))
			}
			cells = append(cells, text+mark(run))
		}
		if some {
			fmt.Fprintf(&lines, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	if lines.Len() > 0 {
		fmt.Fprintf(b, "\n## What to choose\n\nMedians, and in brackets how many times River's they are, or Celery's for Python. "+
			"The tables below have the ranges, and say what was done.\n\n| | %s |\n|---%s|\n%s", strings.Join(choice.parts, " | "), strings.Repeat("|---", len(choice.parts)), lines.String())
	}
}

// mark marks figures of a run with -short.
func mark(run *Run) string {
	if run.Short {
		return " ⚠ sizes of a tenth"
	}
	return ""
}

// renderTopic renders the measured rows of a topic, and returns the others.
func renderTopic(b *strings.Builder, t topic, r Results) (missing []row) {
	var lines strings.Builder
	names := map[string]string{}
	for _, row := range t.rows {
		names[row.bench] = row.name
	}
	for _, row := range t.rows {
		run, rounds := r.row(row.bench)
		if run == nil {
			missing = append(missing, row)
			continue
		}
		fmt.Fprintf(&lines, "| %s%s | %s | %s | %s | %s | %d | %d | `%s` |\n", row.name, mark(run), figures(row, rounds),
			compared(row, names[row.peer], run), processorTime(rounds), goalText(row, run, rounds), len(rounds), r.number(run), row.bench)
	}
	if lines.Len() == 0 {
		return missing
	}
	fmt.Fprintf(b, "\n## %s\n\n", t.title)
	if t.intro != "" {
		b.WriteString(t.intro + "\n\n")
	}
	b.WriteString("| what | measured | times | CPU: program + servers | goal | rounds | run | benchmark |\n|---|---|---|---|---|---|---|---|\n")
	b.WriteString(lines.String())
	fmt.Fprintf(b, "\nMeasured by `go run ./test/record -only '%s'`.\n", t.pattern())
	for _, row := range t.rows {
		if run, rounds := r.row(row.bench); run != nil && row.missed != "" && !met(row, run, rounds) {
			fmt.Fprintf(b, "\n*%s* misses its goal. %s\n", row.name, row.missed)
		}
	}
	return missing
}

// pattern chooses all rows of a topic, and few others at most.
func (t topic) pattern() string {
	var parts []string
	for _, r := range t.rows {
		part := "^" + r.bench + "$"
		if path := strings.Split(r.bench, "/"); len(path) > 2 {
			part = "^" + strings.Join(path[:2], "/") + "/"
		} else if len(path) > 1 && path[0] != "SQLite" {
			part = "^" + path[0] + "/"
		}
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "|")
}

// text is a value with its words, as the page shows it.
func (s shown) text(value float64) string { return s.before + s.number(value) + s.after }

// number is the value without words, with commas between thousands.
func (s shown) number(value float64) string {
	text := fmt.Sprintf("%.*f", s.digits, value)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest == "" {
		return whole
	}
	return whole + "." + rest
}

// figures are the row's figures: for each the median of its rounds, and the range.
func figures(r row, rounds []Round) string {
	var parts []string
	for _, s := range r.show {
		values := series(rounds, s.unit)
		if len(values) == 0 {
			continue
		}
		text := s.text(medianOf(values))
		if low, high := s.number(slices.Min(values)), s.number(slices.Max(values)); low != high {
			text += fmt.Sprintf(" (%s–%s)", low, high)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// series are the values of a unit in all rounds that have it.
func series(rounds []Round, unit string) []float64 {
	var values []float64
	for _, round := range rounds {
		if value, ok := round.Values[unit]; ok {
			values = append(values, value)
		}
	}
	return values
}

// medianOf is the middle value, or the mean of the two middle values.
func medianOf(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// timesPeer is the ratio of a row's first figure to its peer's, for each round of the run.
func timesPeer(r row, run *Run) []float64 {
	return against(run.Rows[r.bench], run.Rows[r.peer], func(round Round) float64 { return round.Values[r.show[0].unit] })
}

// timesCPU is the same ratio for the CPU time of all processes.
func timesCPU(r row, run *Run) []float64 {
	return against(run.Rows[r.bench], run.Rows[r.peer], func(round Round) float64 {
		sum := 0.0
		for _, unit := range cpuUnits {
			sum += round.Values[unit]
		}
		return sum
	})
}

func against(ours, theirs []Round, value func(Round) float64) []float64 {
	var times []float64
	for _, mine := range ours {
		i := slices.IndexFunc(theirs, func(other Round) bool { return other.Number == mine.Number })
		if i < 0 || value(theirs[i]) == 0 {
			continue
		}
		times = append(times, value(mine)/value(theirs[i]))
	}
	return times
}

// compared is the ratio to the peer, in words.
func compared(r row, peer string, run *Run) string {
	times := timesPeer(r, run)
	if len(times) == 0 {
		return ""
	}
	what := "time"
	if isRate(r.show[0].unit) {
		what = "rate"
	}
	if peer, _, _ = strings.Cut(peer, ","); peer == "" {
		peer = r.peer
	}
	return fmt.Sprintf("**%.2f** (%.2f–%.2f) of the %s of *%s*", medianOf(times), slices.Min(times), slices.Max(times), what, peer)
}

func isRate(unit string) bool { return strings.HasSuffix(unit, "/s") }

var cpuUnits = []string{"node-cpu-s/10k", "postgres-cpu-s/10k", "rabbitmq-cpu-s/10k", "redis-cpu-s/10k"}

// processorTime is the CPU time for 10,000 executions: the sum of the medians, and each of them.
func processorTime(rounds []Round) string {
	var parts []string
	sum := 0.0
	for _, unit := range cpuUnits {
		if values := series(rounds, unit); len(values) > 0 {
			sum += medianOf(values)
			parts = append(parts, fmt.Sprintf("%.2f", medianOf(values)))
		}
	}
	switch len(parts) {
	case 0:
		return ""
	case 1:
		return parts[0]
	}
	return fmt.Sprintf("%.2f = %s", sum, strings.Join(parts, " + "))
}

// goalText is the row's goal, and whether it is met.
func goalText(r row, run *Run, rounds []Round) string {
	var parts []string
	if r.goal.ratio > 0 && isRate(r.show[0].unit) {
		parts = append(parts, fmt.Sprintf("≥ %g times", r.goal.ratio))
	} else if r.goal.ratio > 0 {
		parts = append(parts, fmt.Sprintf("≤ %.2g times", r.goal.ratio))
	}
	if r.goal.cpu > 0 {
		parts = append(parts, fmt.Sprintf("≤ %g times its CPU", r.goal.cpu))
	}
	if r.goal.commits > 0 {
		parts = append(parts, fmt.Sprintf("≤ %g commits", r.goal.commits))
	}
	if r.goal.tail > 0 {
		parts = append(parts, fmt.Sprintf("p99 ≤ %g times p50", r.goal.tail))
	}
	if r.goal.atLeast > 0 {
		parts = append(parts, "≥ "+r.show[0].number(r.goal.atLeast)+r.show[0].after)
	}
	if r.goal.atMost > 0 {
		parts = append(parts, "≤ "+r.show[0].number(r.goal.atMost)+r.show[0].after)
	}
	switch {
	case len(parts) == 0:
		return ""
	case r.goal.compares() && len(timesPeer(r, run)) == 0:
		return strings.Join(parts, ", ") + ": not compared"
	case met(r, run, rounds):
		return strings.Join(parts, ", ") + ": met"
	}
	return strings.Join(parts, ", ") + ": **missed**"
}

func (g goal) compares() bool { return g.ratio > 0 || g.cpu > 0 }

// met reports whether the medians reach the goal. If the run has no peer, there is no comparison, and the goal counts as met.
func met(r row, run *Run, rounds []Round) bool {
	if times := timesPeer(r, run); len(times) > 0 && r.goal.ratio > 0 {
		if isRate(r.show[0].unit) && medianOf(times) < r.goal.ratio || !isRate(r.show[0].unit) && medianOf(times) > r.goal.ratio {
			return false
		}
	}
	if times := timesCPU(r, run); len(times) > 0 && r.goal.cpu > 0 && medianOf(times) > r.goal.cpu {
		return false
	}
	values := series(rounds, r.show[0].unit)
	if len(values) == 0 {
		return true
	}
	if commits := series(rounds, commitUnit); r.goal.commits > 0 && len(commits) > 0 && medianOf(values) > r.goal.commits*medianOf(commits) {
		return false
	}
	if r.goal.tail > 0 {
		if times := tails(r, rounds); len(times) > 0 && medianOf(times) > r.goal.tail {
			return false
		}
	}
	value := medianOf(values)
	return (r.goal.atLeast == 0 || value >= r.goal.atLeast) && (r.goal.atMost == 0 || value <= r.goal.atMost)
}

// tails are how many times its first figure the second one is, in each round.
func tails(r row, rounds []Round) (times []float64) {
	for _, round := range rounds {
		if first := round.Values[r.show[0].unit]; first > 0 {
			times = append(times, round.Values[r.show[1].unit]/first)
		}
	}
	return times
}
