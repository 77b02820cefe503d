package pack

import (
	"fmt"
	"strings"
)

// problemsMax bounds how many problems are kept; the rest are counted.
const problemsMax = 100

// Problems holds all problems of one Load.
type Problems struct {
	Texts []string // one line each, at most 100, in the order in which they were found
	More  int      // how many others there were
}

// Error joins the problems, one per line.
func (p *Problems) Error() string {
	text := strings.Join(p.Texts, "\n")
	if p.More > 0 {
		text += fmt.Sprintf("\nand %d more", p.More)
	}
	return text
}

func (p *Problems) add(format string, args ...any) {
	if len(p.Texts) >= problemsMax {
		p.More++
		return
	}
	p.Texts = append(p.Texts, printable(fmt.Sprintf(format, args...)))
}

func (p *Problems) count() int { return len(p.Texts) + p.More }

func (p *Problems) err() error {
	if len(p.Texts) == 0 {
		return nil
	}
	return p
}

// printable removes characters from a file's text that could break a line or a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || (r >= 0x7f && r < 0xa0) || r == '\u2028' || r == '\u2029' {
			return '\uFFFD'
		}
		return r
	}, s)
}

// clip bounds a file's text within a problem.
func clip(s string) string {
	const limit = 100
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
