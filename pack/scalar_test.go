package pack

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1, "512": 512, "1B": 1, "2GiB": 2 << 30, "1.5 KiB": 1536, "3KB": 3000, "1TiB": 1 << 40, "0.5MiB": 1 << 19,
		"0": 0, "-1": 0, "0.1": 0, "": 0, "GiB": 0, "1 gib": 0, "1e3": 0, "1GiB ": 0, "9999999TiB": 0, "0x10": 0, "1_000": 0,
	} {
		got, ok := parseSize(text)
		require.Equal(t, want, got, text)
		require.Equal(t, want > 0, ok, text)
	}
}

// TestForeignTextStaysOnItsLine: a problem is one printable line of bounded length, whatever text a file contains.
func TestForeignTextStaysOnItsLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p Problems
		p.add("x: %s", clip(rapid.String().Draw(t, "text")))
		require.NotRegexp(t, `[\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}]`, p.Texts[0])
		require.LessOrEqual(t, len(p.Texts[0]), 3*104+3)
	})
}
