package main

import (
	"os"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"golang.org/x/sys/unix"
)

// leastFirst are the columns that a table leaves out where the terminal is too narrow for all, in that order. -o json has them.
var leastFirst = []string{
	"RUNTIME", "DISPATCH", "INCARNATION", "ROUTER", "PID", "GEN", "ATTEMPT", "NODES", "DEGRADED", "STARTING", "VERSION", "HEALTH", "RESTARTS", "EPOCH", "ADDRESS",
	"TOOK", "STARTED", "RUNS", "EXECUTION", "NOT DUE", "PLACED", "WORKER", "BEAT", "AGE", "SINCE", "BUSY",
}

// Bounds of a table in a terminal.
const (
	cellGap  = 2   // between two columns
	lastMin  = 30  // of the last column, which says why, before others are left out for it
	cellMin  = 14  // of a name, before the line is cut at the terminal's edge
	roomMost = 400 // of a text that has the rest of the line
)

// columnsOf is how wide a terminal is; 0: the file is none.
func columnsOf(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// room is how long the last text of a line may be: in a terminal as long as fits, elsewhere the given limit.
func (a *app) room(limit int) int {
	if a.width > 0 {
		return roomMost
	}
	return limit
}

// fitTable brings a table to a width. It leaves columns out, the least first, until the last column has what it needs or lastMin, shortens
// what is long, and gives the last column what is left.
func fitTable(width int, heads []string, rows [][]string) ([]string, [][]string) {
	for _, name := range leastFirst {
		at := slices.Index(heads, name)
		if last := len(heads) - 1; at < 1 || at == last || fixed(heads, rows)+min(columnWidth(heads, rows, last), lastMin) <= width {
			continue
		}
		heads, rows = columns(heads, rows, slices.Delete(slices.Clone(heads), at, at+1)...)
	}
	last := len(heads) - 1
	rows = slices.Clone(rows)
	wanted := columnWidth(heads, rows, last)
	shorten(width-min(wanted, lastMin), cellMin, heads, rows)
	shorten(width-min(wanted, cellMin), 1, heads, rows)
	room := max(width-fixed(heads, rows), cellMin)
	for i := range rows {
		rows[i] = slices.Clone(rows[i])
		rows[i][last] = causeTo(rows[i][last], room)
	}
	return heads, rows
}

// shorten clips the cells of all columns but the first and the last, from the right, until those before the last fit the width. No column
// becomes narrower than its head, nor than least.
func shorten(width, least int, heads []string, rows [][]string) {
	for at := len(heads) - 2; at > 0 && fixed(heads, rows) > width; at-- {
		room := max(columnWidth(heads, rows, at)-(fixed(heads, rows)-width), least, lipgloss.Width(heads[at]))
		for i := range rows {
			rows[i] = slices.Clone(rows[i])
			rows[i][at] = clipTo(rows[i][at], room)
		}
	}
}

// columnWidth is how wide a column is without the gap behind it.
func columnWidth(heads []string, rows [][]string, at int) int {
	widest := lipgloss.Width(heads[at])
	for _, row := range rows {
		widest = max(widest, lipgloss.Width(visible(row[at])))
	}
	return widest
}

// fixed is how wide all columns but the last are, with their gaps.
func fixed(heads []string, rows [][]string) (sum int) {
	for at := range len(heads) - 1 {
		sum += columnWidth(heads, rows, at) + cellGap
	}
	return sum
}

// causeTo bounds a reason. Reasons go from what failed to why, so that of one which is too long the beginning is left out and its cause
// stays: part by part where that keeps half of the room full, else word by word.
func causeTo(s string, limit int) string {
	s = strings.TrimSpace(s)
	if lipgloss.Width(s) <= limit {
		return s
	}
	part := without(s, ": ", limit)
	if words := without(s, " ", limit); 2*lipgloss.Width(part) < limit && words != "" {
		part = words
	}
	if part == "" { // its last word alone is longer
		return clipTo("…"+s[strings.LastIndex(s, " ")+1:], limit)
	}
	return "…" + part
}

// without leaves out beginnings up to a separator until the rest and a sign of that fit; empty: none does.
func without(s, separator string, limit int) string {
	for more := true; more; {
		if _, s, more = strings.Cut(s, separator); more && lipgloss.Width(s) < limit {
			return s
		}
	}
	return ""
}

// wrapped is a table of names and texts in which no word is broken by the terminal's edge, but one that is longer than a line.
func (a *app) wrapped(rows [][]string) [][]string {
	if a.width == 0 {
		return rows
	}
	names := 0
	for _, row := range rows {
		names = max(names, lipgloss.Width(row[0]))
	}
	var out [][]string
	for _, row := range rows {
		name := row[0]
		for line := range strings.SplitSeq(lipgloss.Wrap(visible(row[1]), max(a.width-names-cellGap, cellMin), ""), "\n") {
			out = append(out, []string{name, line})
			name = ""
		}
	}
	return out
}
