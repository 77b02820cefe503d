package pack

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// patternMax bounds a pattern's program, in instructions. For each character, a match visits at most that many.
const patternMax = 10_000

// pattern is a regular expression whose matches can be counted and stopped. The standard library's cannot. A bound from
// the worst case of its length would be far too strict: a pattern of 760 instructions often visits two of them for a
// character.
type pattern struct {
	*regexp.Regexp
	program  *syntax.Prog
	anchored bool // it matches only at the beginning of the text
}

func compilePattern(text string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > patternMax {
		return nil, fmt.Errorf("the pattern is too large: it compiles to %d instructions, at most %d are allowed", len(program.Inst), patternMax)
	}
	return &pattern{re, program, program.StartCond()&syntax.EmptyBeginText != 0}, nil
}

// matcher runs the patterns of one check, one at a time, as Thompson's simulation of an automaton: it reads a text once
// and keeps the set of instructions that wait for the next character.
type matcher struct {
	seen    []uint32 // by instruction: the last round that visited it
	round   uint32
	waiting []uint32 // instructions that read a character
	next    []uint32 // their successors
	stack   []uint32
}

// match reports whether the pattern is found in the text. It charges the visited instructions, position by position,
// and returns false once charge does.
func (m *matcher) match(p *pattern, text string, charge func(visits int) bool) bool {
	if missing := len(p.program.Inst) - len(m.seen); missing > 0 {
		m.seen = append(m.seen, make([]uint32, missing)...)
	}
	m.next = m.next[:0]
	before := rune(-1)
	for at := 0; ; {
		now, width := rune(-1), 0
		if at < len(text) {
			now, width = utf8.DecodeRuneInString(text[at:])
		}
		if at == 0 || !p.anchored {
			m.next = append(m.next, uint32(p.program.Start)) //nolint:gosec // at most patternMax
		}
		found, visits := m.follow(p.program, syntax.EmptyOpContext(before, now))
		if !charge(visits) || found {
			return found
		}
		if width == 0 || (p.anchored && len(m.waiting) == 0) {
			return false
		}
		m.next = m.next[:0]
		for _, pc := range m.waiting {
			if inst := &p.program.Inst[pc]; inst.MatchRune(now) {
				m.next = append(m.next, inst.Out)
			}
		}
		before, at = now, at+width
	}
}

// follow goes from the next instructions to those that read a character. found reports that it reached the end of the
// pattern.
func (m *matcher) follow(program *syntax.Prog, here syntax.EmptyOp) (found bool, visits int) {
	m.round++
	m.waiting, m.stack = m.waiting[:0], append(m.stack[:0], m.next...)
	for len(m.stack) > 0 {
		pc := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		if m.seen[pc] == m.round {
			continue
		}
		m.seen[pc] = m.round
		visits++
		switch inst := &program.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			return true, visits
		case syntax.InstFail:
		case syntax.InstAlt, syntax.InstAltMatch:
			m.stack = append(m.stack, inst.Arg, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^here == 0 { //nolint:gosec // a set of six bits
				m.stack = append(m.stack, inst.Out)
			}
		case syntax.InstCapture, syntax.InstNop:
			m.stack = append(m.stack, inst.Out)
		default:
			m.waiting = append(m.waiting, pc)
		}
	}
	return false, visits
}
