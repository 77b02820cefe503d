package lifecycle

import "strings"

// Table renders the lifecycle as a markdown table, one line for each state that a state leads to.
func Table() string {
	var b strings.Builder
	b.WriteString("| from | to | reasons |\n|---|---|---|\n")
	for _, row := range rows {
		b.WriteString("| " + row.from.String() + " | " + row.to.String() + " | " + join(row.reasons, ", ") + " |\n")
	}
	return b.String()
}

// Diagram renders the lifecycle as a mermaid state diagram.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    [*] --> " + Initializing.String() + "\n")
	for _, row := range rows {
		b.WriteString("    " + row.from.String() + " --> " + row.to.String() + ": " + join(row.reasons, "<br/>") + "\n")
	}
	b.WriteString("    " + Terminated.String() + " --> [*]\n")
	return b.String()
}

func join(reasons []Reason, by string) string {
	names := make([]string, len(reasons))
	for i, r := range reasons {
		names[i] = r.String()
	}
	return strings.Join(names, by)
}
