package mask

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func setOf(t require.TestingT, values ...string) *Set {
	s, err := New(values)
	require.NoError(t, err)
	return s
}

func TestText(t *testing.T) {
	t.Parallel()
	const pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----\n"
	for name, c := range map[string]struct {
		values     []string
		text, want string
	}{
		"none":                      {nil, "hunter2-hunter2", "hunter2-hunter2"},
		"not there":                 {[]string{"hunter2-hunter2"}, "hunter2 hunter2-hunter", "hunter2 hunter2-hunter"},
		"alone":                     {[]string{"hunter2-hunter2"}, "hunter2-hunter2", "[redacted]"},
		"within":                    {[]string{"hunter2-hunter2"}, "a hunter2-hunter2 b", "a [redacted] b"},
		"twice":                     {[]string{"hunter22"}, "hunter22,hunter22", "[redacted],[redacted]"},
		"one behind the other":      {[]string{"hunter22"}, "hunter22hunter22", "[redacted]"},
		"it begins twice":           {[]string{"aaaaaaab"}, "xaaaaaaaaaab", "xaaa[redacted]"},
		"it overlaps itself":        {[]string{"abcdabcdab"}, "abcdabcdabcdab!", "[redacted]!"},
		"one in another":            {[]string{"12345678", "x12345678y"}, "x12345678y 12345678", "[redacted] [redacted]"},
		"the longer one breaks off": {[]string{"12345678", "x12345678y"}, "x12345678z", "x[redacted]z"},
		"overlapping ones":          {[]string{"abcdefgh", "efghijkl"}, "-abcdefghijkl-", "-[redacted]-"},
		"in JSON":                   {[]string{"a\"b\\c<d>e"}, `{"x":"a\"b\\c<d>e","y":"a\"b\\c\u003cd\u003ee"}`, `{"x":"[redacted]","y":"[redacted]"}`},
		"a line of a key":           {[]string{pem}, "MIIEvQIBADANBgkqhkiG9w0B\r\nAQEFAASCBKcwggSjAgEAAoIB", "[redacted]\r\n[redacted]"},
		"the frame of a key":        {[]string{pem}, "-----BEGIN KEY-----", "-----BEGIN KEY-----"},
		"bytes that are not UTF-8":  {[]string{"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8"}, "a\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\x00", "a[redacted]\x00"},
	} {
		require.Equal(t, c.want, setOf(t, c.values...).Text(c.text), name)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	s := setOf(t, "12345678", `qu"ote\d!`)
	for text, want := range map[string]string{
		`{"a":1}`: `{"a":1}`,
		`{ "a" : "x12345678" , "b" : [12345678]}`: `{"a":"x[redacted]","b":["[redacted]"]}`,
		`{"12345678":1.50}`:                       `{"[redacted]":1.50}`,
		`"qu\"ote\\d!"`:                           `"[redacted]"`,
		`{"a":"12345678"`:                         `"[redacted]"`,
		`123456789e2`:                             `"[redacted]9e2"`,
	} {
		got := s.JSON(json.RawMessage(text))
		require.Equal(t, want, string(got))
		require.True(t, json.Valid(got))
	}
	s = setOf(t, "abc/de+fgé", "päßwört😀1")
	for text, want := range map[string]string{
		`"abc/de+fgé"`: `"[redacted]"`, `"abc\/de+fg\u00e9"`: `"[redacted]"`, `"\u0061bc/de\u002bfg\u00E9"`: `"[redacted]"`,
		`{"a":"p\u00e4\u00dfw\u00f6rt\ud83d\ude001"}`: `{"a":"[redacted]"}`, `"nothing\/here"`: `"nothing/here"`,
	} {
		require.Equal(t, want, string(s.JSON(json.RawMessage(text))), text)
	}
	require.Equal(t, "x [redacted] [redacted]", s.Text(`x p\u00e4\u00dfw\u00f6rt\ud83d\ude001 abc\/de+fg\u00e9`), "as other writers of JSON print it")
	var none *Set
	require.Equal(t, "12345678", string(none.JSON(json.RawMessage("12345678"))))
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][]string{
		"short": {"1234567"}, "empty": {""}, "long": {strings.Repeat("x", ValueMax+1)}, "NUL": {"12345678\x00"},
		"too many": strings.Split(strings.Repeat("12345678,", ValuesMax+1)[:9*(ValuesMax+1)-1], ","),
		"together": strings.Split(strings.Repeat(strings.Repeat("y", ValueMax)+",", 5)[:5*(ValueMax+1)-1], ","),
	} {
		_, err := New(values)
		require.Error(t, err, name)
		for _, v := range values {
			if v != "" {
				require.NotContains(t, err.Error(), v, "an error shows no secret")
			}
		}
	}
}

// naive masks by looking for each form at each place.
func naive(s *Set, values []string, text string) string {
	covered := make([]bool, len(text))
	for _, v := range values {
		for _, form := range forms(v) {
			for i := 0; i+len(form) <= len(text); i++ {
				for j := 0; text[i:i+len(form)] == form && j < len(form); j++ {
					covered[i+j] = true
				}
			}
		}
	}
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !covered[i]:
			b.WriteByte(text[i])
		case i == 0 || !covered[i-1]:
			b.WriteString(Mark)
		}
	}
	return b.String()
}

// However a text is cut into pieces, what comes out is the text with every byte of a secret gone, and it comes at once but for
// what may begin a secret.
func TestStreamMasksAcrossBorders(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.StringMatching(`[ab"\n]{8,40}`), 1, 4).Draw(t, "values")
		s := setOf(t, values...)
		var text strings.Builder
		for range rapid.IntRange(0, 12).Draw(t, "parts") {
			part := rapid.SampledFrom(append([]string{"a", "b", "ab", "\n", `\"`, "x"}, values...)).Draw(t, "part")
			text.WriteString(part[:rapid.IntRange(1, len(part)).Draw(t, "length")])
		}
		stream, out, longest := s.Stream(), "", 0
		for _, d := range s.depth {
			longest = max(longest, int(d))
		}
		for rest := text.String(); rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			out += string(stream.Write([]byte(rest[:n])))
			rest = rest[n:]
			require.LessOrEqual(t, len(stream.held), longest, "no more is held back")
		}
		out += string(stream.rest())
		require.Equal(t, naive(s, values, text.String()), out)
		require.Equal(t, out, s.Text(text.String()))
	})
}

// What begins a secret is masked at the end of a text from its half on, and at a pause, behind which the text may go on.
func TestAPartOfASecretAtTheEnd(t *testing.T) {
	t.Parallel()
	const pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----\n"
	for name, c := range map[string]struct {
		values []string
		pieces []string // with a pause after each
		want   string
	}{
		"none":                         {nil, []string{"hunter2-hun"}, "hunter2-hun"},
		"nothing of it":                {[]string{"hunter2-hunter2"}, []string{"a shot"}, "a shot"},
		"less than its half":           {[]string{"12345678"}, []string{"a 123"}, "a 123"},
		"its half":                     {[]string{"12345678"}, []string{"a 1234"}, "a [redacted]"},
		"half of an odd number":        {[]string{"123456789"}, []string{"a 1234", "-12345"}, "a 1234-[redacted]"},
		"all but one byte":             {[]string{"12345678"}, []string{"a 1234567"}, "a [redacted]"},
		"then a line's end":            {[]string{"12345678"}, []string{"a 1234567\n"}, "a 1234567\n"},
		"after a whole one":            {[]string{"12345678"}, []string{"1234567812345"}, "[redacted]"},
		"of the shorter of two":        {[]string{"12345678", "12345678-and-so-on-it-goes"}, []string{"a 1234"}, "a [redacted]"},
		"of the longer, less":          {[]string{"12345678", "12345678-and-so-on-it-goes"}, []string{"12345678-an"}, "[redacted]-an"},
		"in another that goes on":      {[]string{"12345678", "x123456789abcdefghijkl"}, []string{"x1234"}, "x[redacted]"},
		"of a line of a key":           {[]string{pem}, []string{"MIIEvQIBADANBg"}, "[redacted]"},
		"of a key, by its last line":   {[]string{pem}, []string{pem[:40]}, "-----BEGIN KEY-----\n[redacted]"},
		"it goes on behind the pause":  {[]string{"12345678"}, []string{"a 12345", "678 b"}, "a [redacted] b"},
		"behind less than its half":    {[]string{"12345678"}, []string{"a 123", "45678 b"}, "a 123[redacted] b"},
		"by single bytes":              {[]string{"12345678"}, []string{"a 1", "2", "3", "4", "5", "6", "7", "8", " b"}, "a 123[redacted] b"},
		"it was none after all":        {[]string{"12345678"}, []string{"a 1234", "x5678"}, "a [redacted]x5678"},
		"and another behind the pause": {[]string{"12345678"}, []string{"1234", "12345678", "9"}, "[redacted]9"},
		"as JSON writes it":            {[]string{`a"b\c<d>e`}, []string{`a\"b\\c`}, "[redacted]"},
	} {
		stream, out := setOf(t, c.values...).Stream(), ""
		for i, piece := range c.pieces {
			out += string(stream.Write([]byte(piece)))
			if i < len(c.pieces)-1 {
				out += string(stream.Pause())
			}
		}
		require.Equal(t, c.want, out+string(stream.End()), name)
		require.Empty(t, stream.held, name)
		require.Zero(t, stream.at, "%s: the next text is another", name)
	}
	stream := setOf(t, "12345678").Stream()
	require.Equal(t, "[redacted]", string(stream.Write([]byte("12345")))+string(stream.Pause()))
	stream.Drop()
	require.Equal(t, "[redacted] b", string(stream.Write([]byte("678 b"))), "nobody has seen the first mark")
	require.Equal(t, "at [redacted]", setOf(t, "12345678").Cut("at 12345"))
	require.Equal(t, "at 12345", setOf(t, "12345678").Text("at 12345"), "a whole text has no part of a secret")
	var none *Set
	require.Equal(t, "at 12345", none.Cut("at 12345"))
}

// paused masks a text by looking at each place for each form, and at each pause for each half of one.
func paused(s *Set, values []string, text string, pauses []int) string {
	hidden := make([]bool, len(text))
	from := 0
	for _, p := range append(pauses, len(text)) { // bytes in text[from:p] are given out at p at the latest
		for _, v := range values {
			for _, form := range forms(v) {
				for i := 0; i < p; i++ {
					n := min(len(form), p-i)
					if text[i:i+n] != form[:n] || n < len(form) && 2*n < len(form) {
						continue
					}
					for j := max(i, from); j < i+n; j++ {
						hidden[j] = true
					}
				}
			}
		}
		from = max(from, p)
	}
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !hidden[i]:
			b.WriteByte(text[i])
		case i == 0 || !hidden[i-1]:
			b.WriteString(Mark)
		}
	}
	return b.String()
}

// Wherever a text pauses, of a secret less than the half that was there before a pause is shown, and nothing else.
func TestPausesShowLessThanHalf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.StringMatching(`[ab"]{8,20}`), 1, 3).Draw(t, "values")
		s := setOf(t, values...)
		var text strings.Builder
		for range rapid.IntRange(0, 8).Draw(t, "parts") {
			part := rapid.SampledFrom(append([]string{"a", "b", "x"}, values...)).Draw(t, "part")
			text.WriteString(part[:rapid.IntRange(1, len(part)).Draw(t, "length")])
		}
		stream, out, at := s.Stream(), "", 0
		var pauses []int
		for rest := text.String(); rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			out += string(stream.Write([]byte(rest[:n])))
			rest, at = rest[n:], at+n
			if rest != "" && rapid.Bool().Draw(t, "pause") {
				out += string(stream.Pause())
				pauses = append(pauses, at)
				require.Empty(t, stream.held, "a pause gives out everything")
			}
		}
		out += string(stream.End())
		require.Equal(t, paused(s, values, text.String(), pauses), out)
	})
}

func FuzzStream(f *testing.F) {
	f.Add("aaaaaaab", "aaaaaaaaaaab", 3)
	f.Add("hunter2-hunter2", "x hunter2-hunter2 hunter2-hunt", 7)
	f.Fuzz(func(t *testing.T, value, text string, cut int) {
		if Check(value) != nil || len(value) > 200 || len(text) > 2000 {
			return
		}
		s := setOf(t, value)
		cut = max(0, min(cut, len(text)))
		stream := s.Stream()
		out := string(stream.Write([]byte(text[:cut]))) + string(stream.Write([]byte(text[cut:]))) + string(stream.rest())
		require.Equal(t, naive(s, []string{value}, text), out)
	})
}

// A text that nearly is the secret again and again costs no more than any other: by trying each place this would take hours.
func TestMaskingIsLinear(t *testing.T) {
	t.Parallel()
	s := setOf(t, strings.Repeat("a", ValueMax-1)+"b", strings.Repeat("a", 4000))
	text := strings.Repeat("a", 4<<20)
	require.Equal(t, Mark, s.Text(text))
}

func TestFittingIsTakenByNew(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"12345678", "abcdefgh"}, Fitting([]string{"12345678", "short", "abcdefgh", "12345678", strings.Repeat("x", ValueMax+1), "12345678\x00"}))
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("%08d", i) + strings.Repeat("x", i%2*ValueMax/2)
	}
	fitting := Fitting(many)
	require.Len(t, fitting, 32)
	require.Equal(t, many[:2], fitting[:2])
	_, err := New(fitting)
	require.NoError(t, err)
	require.Nil(t, Fitting(nil))
}
