package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// filled is the text with its spans written over.
func filled(text string, spans []blank) string {
	b := []byte(text)
	for _, s := range spans {
		for i := s.from; i < s.to; i++ {
			b[i] = s.fill
		}
	}
	return strings.ReplaceAll(string(b), "\x00", "|")
}

func TestSecretVariablesAreBlanked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"one of three":     {"A=1\x00SECRET=abc\x00B=2\x00", "A=1|SECRET=||||B=2|"},
		"the last, no end": {"A=1\x00SECRET=abc", "A=1|SECRET=|||"},
		"given twice":      {"SECRET=a\x00SECRET=b\x00", "SECRET=||SECRET=||"},
		"an equals sign":   {"SECRET=a=b\x00", "SECRET=||||"},
		"another's head":   {"SECRET_TOO=a\x00XSECRET=a\x00", "SECRET_TOO=a|XSECRET=a|"},
		"empty":            {"SECRET=\x00", "SECRET=|"},
		"no variable":      {"SECRET\x00\x00\x00=x\x00", "SECRET|||=x|"},
		"nothing":          {"", ""},
	} {
		require.Equal(t, c.want, filled(c.text, variableSpans([]byte(c.text), []string{"SECRET", "OTHER"})), name)
	}
}

func TestSecretArgumentsAreBlanked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"apart":                {"troupe\x00--store\x00u:p@h\x00", "troupe|--store|xxxxx|"},
		"joined":               {"troupe\x00--store=u:p@h\x00", "troupe|--store=xxxxx|"},
		"twice":                {"u:p@h\x00u:p@h", "xxxxx|xxxxx"},
		"a part of another":    {"au:p@h\x00u:p@hz\x00", "au:p@h|u:p@hz|"},
		"nothing of that kind": {"troupe\x00node\x00", "troupe|node|"},
	} {
		require.Equal(t, c.want, filled(c.text, argumentSpans([]byte(c.text), []string{"", "u:p@h"})), name)
	}
}
