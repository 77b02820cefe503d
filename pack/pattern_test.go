package pack

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

func patternOf(t require.TestingT, text string) *pattern {
	re, err := compilePattern(text)
	require.NoError(t, err, "%s", text)
	p, ok := re.(*pattern)
	require.True(t, ok)
	return p
}

// anyPattern draws a regular expression of few letters, so that texts of these letters often match.
func anyPattern(t *rapid.T, depth int) string {
	if depth == 0 {
		return rapid.SampledFrom([]string{"a", "b", "é", ".", "[ab]", "[^a]", "^", "$", `\b`, `\B`, `\A`, `\z`, "(?i:B)", `\w`, "(?m:^b)", "(?m:a$)", `(?s:.)`, ""}).Draw(t, "atom")
	}
	inner := anyPattern(t, depth-1)
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return inner + anyPattern(t, depth-1)
	case 1:
		return "(?:" + inner + "|" + anyPattern(t, depth-1) + ")"
	case 2:
		return "(" + inner + ")" + rapid.SampledFrom([]string{"*", "+", "?", "*?", "{0,2}", "{2,3}"}).Draw(t, "times")
	case 3:
		return "^(?:" + inner + ")$"
	}
	return inner
}

// TestPatternsMatchAsTheLibrary: the counted match and the standard library's give the same result.
func TestPatternsMatchAsTheLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := anyPattern(t, 4)
		p := patternOf(t, text)
		var m matcher
		for range 5 {
			v := rapid.StringOfN(rapid.SampledFrom([]rune("aabbéBx \n\uFFFD")), 0, 8, -1).Draw(t, "text")
			v += rapid.SampledFrom([]string{"", "", "\xff", "\xc3a"}).Draw(t, "tail")
			got := m.match(p, v, func(int) bool { return true })
			require.Equal(t, regexp.MustCompile(text).MatchString(v), got, "%q in %q", text, v)
		}
	})
}

// lists are schemas of lists with a pattern, and an item of them.
var lists = map[string]struct{ pattern, item string }{
	"hosts":                {`^[a-zA-Z0-9.-]{1,253}$`, "node-000000.eu-west.example.com"},
	"names of DNS":         {`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,63}$`, "node-000000.eu-west.example.com"},
	"UUIDs":                {`^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, "01890a5d-ac96-774b-bcce-b302099a8057"},
	"SHA-256":              {`^[0-9a-f]{64}$`, strings.Repeat("0123456789abcdef", 4)},
	"SHA-256, not at ends": {`[0-9a-f]{64}`, strings.Repeat("0123456789abcdef", 4)},
	"long words":           {`^\\S{1,1000}$`, strings.Repeat("w", 999)},
}

func listOf(item string, items int) string {
	return `{"l":[` + strings.Repeat(`"`+item+`",`, items-1) + `"` + item + `"]}`
}

// TestListsWithPatternsAreChecked: a pattern with a counted repetition costs the instructions that its match visits,
// and not its length for each character. Once, a list of 6,000 hosts took too many steps.
func TestListsWithPatternsAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range lists {
		checked := checkerOf(t, fmt.Sprintf(`{"properties":{"l":{"items":{"type":"string","pattern":"%s"}}}}`, c.pattern))
		for _, items := range []int{1, (messages.ParametersMax - 10) / (len(c.item) + 3)} {
			params := listOf(c.item, min(items, messages.ParametersMax/(len(c.item)+3)-1))
			require.LessOrEqual(t, len(params), messages.ParametersMax)
			wrong, err := checked.run(t.Context(), value(t, params))
			require.NoError(t, err, "%s, %d", name, items)
			require.Empty(t, wrong, "%s, %d", name, items)
		}
	}
}

// hostile are patterns with texts in which each character visits much of the pattern.
var hostile = map[string]struct{ pattern, text string }{
	"one long text":         {`^((a|aa)*){1,100}b$`, strings.Repeat("a", 1_000_000)},
	"many short texts":      {`^((a|aa){1,30}){1,30}b$`, strings.Repeat(strings.Repeat("a", 250)+`","`, 4000)},
	"at every place":        {`(a?){900}b`, strings.Repeat("a", 1_000_000)},
	"the largest pattern":   {`^((a?){900}b|(a?){900}c)`, strings.Repeat("a", 1_000_000)},
	"with empty assertions": {`(\\b|\\B|^|a){800}b`, strings.Repeat("a", 1_000_000)},
}

// TestHostileMatchesEndByTheirSteps: the bound also holds within one match, whose visits beyond its steps are bounded.
func TestHostileMatchesEndByTheirSteps(t *testing.T) {
	t.Parallel()
	for name, c := range hostile {
		checked := checkerOf(t, fmt.Sprintf(`{"properties":{"l":{"items":{"pattern":"%s"}}}}`, c.pattern))
		checked.steps = stepsMax / 100 // a hundredth is enough for the test
		_, err := checked.run(t.Context(), value(t, `{"l":["`+c.text+`"]}`))
		require.ErrorIs(t, err, errSteps{}, name)
	}
	p := patternOf(t, hostile["one long text"].pattern)
	visited, most := 0, 10*len(p.program.Inst)
	var m matcher
	require.False(t, m.match(p, strings.Repeat("a", 1000), func(visits int) bool {
		visited += visits
		return visited < most
	}))
	require.Less(t, visited, most+len(p.program.Inst)+1)
}

func BenchmarkPatterns(b *testing.B) {
	for name, c := range hostile {
		b.Run(name, func(b *testing.B) {
			checked := checkerOf(b, fmt.Sprintf(`{"properties":{"l":{"items":{"pattern":"%s"}}}}`, c.pattern))
			v := value(b, `{"l":["`+c.text+`"]}`)
			for b.Loop() {
				_, _ = checked.run(b.Context(), v)
			}
		})
	}
	for name, c := range lists {
		b.Run(name, func(b *testing.B) {
			checked := checkerOf(b, fmt.Sprintf(`{"properties":{"l":{"items":{"pattern":"%s"}}}}`, c.pattern))
			v := value(b, listOf(c.item, messages.ParametersMax/(len(c.item)+3)-1))
			for b.Loop() {
				_, err := checked.run(b.Context(), v)
				require.NoError(b, err)
			}
		})
	}
}
