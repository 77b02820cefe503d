package alerts

import (
	"fmt"
	"strings"
	"time"
)

// runbook is the page with a section for each alert.
const runbook = "docs/alerts.md#"

// Prometheus renders the rules as a file for Prometheus. It is YAML; each text is a double-quoted scalar.
func Prometheus(rules []Rule) string {
	var b strings.Builder
	b.WriteString("# Rendered from rules/alerts. After a change there: go test ./rules/alerts -update\n")
	b.WriteString("groups:\n  - name: troupe\n    interval: 15s\n    rules:\n")
	for i := range rules {
		r := &rules[i]
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n", r.Name, quoted(r.Expression()))
		if r.For > 0 {
			fmt.Fprintf(&b, "        for: %s\n", Duration(r.For))
		}
		fmt.Fprintf(&b, "        labels:\n          severity: %s\n        annotations:\n", r.Severity)
		fmt.Fprintf(&b, "          summary: %s\n", quoted(r.Named("{{ $labels."+string(r.Subject)+" }}", "{{ $value | humanize }}")))
		fmt.Fprintf(&b, "          description: %s\n          runbook: %s\n", quoted(r.Means), r.Runbook())
	}
	return b.String()
}

// Runbook renders the rules as sections of docs/alerts.md.
func Runbook(rules []Rule) string {
	var b strings.Builder
	b.WriteString("| alert | severity | condition | for |\n|---|---|---|---|\n")
	for i := range rules {
		r := &rules[i]
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | `%s` | %s |\n", r.Name, r.Name, r.Severity, strings.ReplaceAll(r.Expression(), "|", `\|`), spoken(r.For))
	}
	told := ""
	for i := range rules {
		r := &rules[i]
		if r.Name != told {
			fmt.Fprintf(&b, "\n### %s\n", r.Name)
		}
		told = r.Name
		fmt.Fprintf(&b, "\n**%s.** %s\n\n*What to do:* %s\n", strings.ToUpper(string(r.Severity[:1]))+string(r.Severity[1:]), r.Means, r.Do)
	}
	return b.String()
}

func spoken(d time.Duration) string {
	if d == 0 {
		return "at once"
	}
	return Duration(d)
}

// Duration is a duration as Prometheus writes it: whole minutes or seconds.
func Duration(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// quoted is a double-quoted scalar of YAML.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
