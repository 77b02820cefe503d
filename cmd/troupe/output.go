package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
)

var (
	headStyle = lipgloss.NewStyle().Bold(true).PaddingRight(2)
	cellStyle = lipgloss.NewStyle().PaddingRight(2)
	goodStyle = cellStyle.Foreground(lipgloss.Green)
	badStyle  = cellStyle.Foreground(lipgloss.Red)
	warnStyle = cellStyle.Foreground(lipgloss.Yellow)
)

// tones colours the words that matter. A word that is not here stays plain.
var tones = map[string]lipgloss.Style{
	"completed": goodStyle, "ready": goodStyle, "healthy": goodStyle, "active": goodStyle, "ok": goodStyle,
	"failed": badStyle, "timed_out": badStyle, "abandoned": badStyle, "unhealthy": badStyle, "broken": badStyle,
	"terminated": badStyle, "fail": badStyle, "dead": badStyle,
	"degraded": warnStyle, "cancelled": warnStyle, "cancelling": warnStyle, "cordoned": warnStyle, "warn": warnStyle, "old code": warnStyle,
	"draining": warnStyle, "initializing": warnStyle, "terminating": warnStyle,
}

// printJSON writes v for programs, indented, its markup unescaped.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.out.Write(harmlessJSON(b.Bytes()))
	return err
}

// show writes v as JSON where that is asked for, and else the rows under their heads.
func (a *app) show(v any, heads []string, rows [][]string) error {
	if a.output == "json" {
		return a.printJSON(v)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.out, "none")
		return err
	}
	return a.printTable(heads, rows)
}

// printTable writes a table; colours go only to a terminal. Cells hold what callers and programs chose, so control
// characters are made visible: they must not steer the reader's terminal.
func (a *app) printTable(heads []string, rows [][]string) error {
	text := ""
	if a.width > 0 {
		heads, rows = fitTable(a.width, heads, rows)
		text = fitWidth(renderTable(heads, rows), a.width)
	} else {
		text = renderTable(heads, rows)
	}
	_, err := lipgloss.Fprintln(a.out, text)
	return err
}

// screenOut is standard output for what programs wrote: as it is, and without what would steer it where it is a terminal.
func (a *app) screenOut(raw bool) io.Writer { return onScreen(a.out, a.screen && !raw) }

// screenErr is the same of standard error.
func (a *app) screenErr(raw bool) io.Writer { return onScreen(a.err, a.terminal && !raw) }

func onScreen(w io.Writer, screen bool) io.Writer {
	if screen {
		return &screenText{to: w}
	}
	return w
}

// ended writes what a screen's text still waits with.
func ended(writers ...io.Writer) {
	for _, w := range writers {
		if s, ok := w.(*screenText); ok {
			s.end()
		}
	}
}

func (a *app) printID(v form.ExecutionView) error {
	if a.output == "json" {
		return a.printJSON(v)
	}
	_, err := fmt.Fprintln(a.out, v.ID)
	return err
}

// order posts to a path and says what came of it.
func (a *app) order(ctx context.Context, c *client.Client, path, said string) error {
	var v map[string]any
	if err := c.Post(ctx, path, a.why(), &v); err != nil {
		return err
	}
	if a.output == "json" {
		return a.printJSON(v)
	}
	_, err := fmt.Fprintln(a.out, visible(said))
	return err
}

// reasoned gives a command the flag that says why it is given.
func (a *app) reasoned(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&a.reason, "reason", "", "why, for the journal (troupe history); up to 512 bytes")
	return cmd
}

// why is the body of a command that says why it is given; nil: it does not.
func (a *app) why() any {
	if a.reason == "" {
		return nil
	}
	return api.ReasonBody{Reason: a.reason}
}

func renderTable(heads []string, rows [][]string) string {
	clean := make([][]string, len(rows))
	for i, row := range rows {
		clean[i] = make([]string, len(row))
		for j, cell := range row {
			clean[i][j] = visible(cell)
		}
	}
	t := table.New().Headers(heads...).Rows(clean...).Border(lipgloss.HiddenBorder()).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderColumn(false).BorderHeader(false).
		Wrap(false).
		StyleFunc(func(row, column int) lipgloss.Style {
			if row == table.HeaderRow {
				return headStyle
			}
			if style, ok := tones[clean[row][column]]; ok {
				return style
			}
			return cellStyle
		})
	lines := strings.Split(t.Render(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// ago writes how long a moment has passed, in the largest fitting unit; nothing for a moment that has not come.
func ago(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return short(max(now.Sub(at), 0))
}

// short writes a length of time for people.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// clipTo bounds a cell. It is cut between words, unless the last one is longer than half of it.
func clipTo(s string, limit int) string {
	r := []rune(s)
	if len(r) <= limit {
		return s
	}
	cut := limit - 1
	for at := cut; at > limit/2; at-- {
		if unicode.IsSpace(r[at]) {
			cut = at
			break
		}
	}
	return strings.TrimRightFunc(string(r[:cut]), unicode.IsSpace) + "…"
}

// progress draws one line of a terminal again and again. Elsewhere it draws nothing, and neither beside JSON: it may go to the same
// terminal, piece by piece, and what is drawn takes the line away that the cursor is on.
type progress struct {
	app   *app
	drawn bool
}

func (p *progress) say(format string, args ...any) {
	if !p.app.terminal || p.app.output == "json" {
		return
	}
	p.drawn = true
	fmt.Fprintf(p.app.err, "\r\x1b[K%s", visible(fmt.Sprintf(format, args...)))
}

// done takes the line away again.
func (p *progress) done() {
	if p.drawn {
		fmt.Fprint(p.app.err, "\r\x1b[K")
		p.drawn = false
	}
}
