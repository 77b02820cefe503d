package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What callers, programs and other nodes chose must not steer the terminal of who reads it: no escape sequence, no character of
// the C1 set, which is one byte shorter than its sequence, no line end where a line is ours, and no change of the writing direction.

// unseen stands for a character that is not shown.
const unseen = '·'

// steers reports whether a character does something other than show.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// visible is a text for one line, or a cell of a table. Bytes that are no UTF-8 become the character for that.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return unseen
		}
		return r
	}, s)
}

// visibleLines is a text that may have lines and tabs of its own.
func visibleLines(s string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) && r != '\n' && r != '\t' {
			return unseen
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

// paragraph is a text of several lines among ours. Its lines but the first are indented, so that none of them passes for one of ours.
func paragraph(s string) string {
	lines := strings.Split(visibleLines(s), "\n")
	for i, line := range lines {
		if i > 0 && line != "" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			lines[i] = "  " + line
		}
	}
	return strings.Join(lines, "\n")
}

// harmlessJSON is the same JSON without characters that steer a terminal: the encoder escapes only those below the space. They can
// only stand in its strings.
func harmlessJSON(text []byte) []byte {
	var b bytes.Buffer
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r > ' ' && steers(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.Write(text[:size])
		}
		text = text[size:]
	}
	return b.Bytes()
}

// screenText passes a program's output on to a terminal, where it is shown and does nothing else. A character that came in part
// waits for its rest.
type screenText struct {
	to   io.Writer
	held []byte
}

// Write implements io.Writer.
func (w *screenText) Write(p []byte) (int, error) {
	text := slices.Concat(w.held, p)
	whole := len(text) - unfinished(text)
	w.held = bytes.Clone(text[whole:])
	_, err := io.WriteString(w.to, visibleLines(string(text[:whole])))
	return len(p), err
}

// end writes what still waits.
func (w *screenText) end() {
	_, _ = io.WriteString(w.to, visibleLines(string(w.held))) // there is nobody left to tell
	w.held = nil
}

// unfinished is how many bytes at the end of a text are the beginning of a character, or of a line end of two.
func unfinished(text []byte) int {
	if bytes.HasSuffix(text, []byte("\r")) {
		return 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return n
			}
			break
		}
	}
	return 0
}
