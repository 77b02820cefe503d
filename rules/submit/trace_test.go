package submit

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

const (
	traced   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	tracedID = "0af7651916cd43dd8448eb211c80319c"
)

func TestTraceparents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"one":                                  {traced, traced},
		"one that is not sampled":              {traced[:53] + "00", traced[:53] + "00"},
		"one with a random id":                 {traced[:53] + "03", traced[:53] + "03"},
		"flags that nobody knows":              {traced[:53] + "fd", traced[:53] + "01"},
		"a newer version":                      {"01" + traced[2:], traced},
		"a newer version that goes on":         {"cc" + traced[2:] + "-what-the-future-will-be-like", traced},
		"none":                                 {"", ""},
		"a newer version that goes on wrongly": {"cc" + traced[2:] + ".what", ""},
		"version 00 that goes on":              {traced + "-what", ""},
		"the version that is none":             {"ff" + traced[2:], ""},
		"a version that is no number":          {"0x" + traced[2:], ""},
		"upper case":                           {strings.ToUpper(traced), ""},
		"zeros as the trace":                   {strings.Replace(traced, tracedID, strings.Repeat("0", 32), 1), ""},
		"zeros as the span":                    {traced[:36] + strings.Repeat("0", 16) + "-01", ""},
		"flags that are no number":             {traced[:53] + "0g", ""},
		"a blank before it":                    {" " + traced, ""},
		"a blank within":                       {traced[:10] + " " + traced[11:], ""},
		"a line break behind it":               {traced + "\n", ""},
		"a NUL":                                {traced[:20] + "\x00" + traced[21:], ""},
		"letters of two bytes":                 {traced[:20] + "é" + traced[22:], ""},
		"other separators":                     {strings.ReplaceAll(traced, "-", "_"), ""},
		"half of one":                          {traced[:54], ""},
		"a huge one":                           {"cc" + traced[2:] + "-" + strings.Repeat("a", 1<<20), ""},
		"SQL":                                  {"00-'; DROP TABLE executions; --0319c-b7ad6b7169203331-01", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, Trace(c.text, ""))
			require.Equal(t, c.want, messages.TraceParent(Trace(c.text, "a=1")))
		})
	}
}

func TestTracestates(t *testing.T) {
	t.Parallel()
	members := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = "k" + strconv.Itoa(i) + "=v"
		}
		return strings.Join(all, ",")
	}
	for name, c := range map[string]struct{ text, want string }{
		"one member":               {"rojo=00f067aa0ba902b7", "rojo=00f067aa0ba902b7"},
		"two":                      {"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"},
		"a tenant":                 {"fw529a3039@dt=FfAAA", "fw529a3039@dt=FfAAA"},
		"a digit first":            {"1a=b", "1a=b"},
		"blanks in a value":        {"a=b c", "a=b c"},
		"blanks between them":      {" a=1 ,\tb=2 ", "a=1,b=2"},
		"empty members":            {"a=1,,b=2,", "a=1,b=2"},
		"as many as there may be":  {members(32), members(32)},
		"none":                     {"", ""},
		"commas alone":             {",,,", ""},
		"too many":                 {members(33), ""},
		"too long":                 {"a=" + strings.Repeat("b", 600), ""},
		"a key that is too long":   {strings.Repeat("a", 257) + "=1", ""},
		"a value that is too long": {"a=" + strings.Repeat("b", 257), ""},
		"no value":                 {"a=", ""},
		"no key":                   {"=1", ""},
		"no equals sign":           {"a", ""},
		"two equals signs":         {"a=1=2", ""},
		"upper case in a key":      {"A=1", ""},
		"a key twice":              {"a=1,a=2", ""},
		"two tenants":              {"a@b@c=1", ""},
		"a tenant of nobody":       {"a@=1", ""},
		"a system of nobody":       {"@a=1", ""},
		"a line break":             {"a=1\r\nX-Evil: 1", ""},
		"a NUL":                    {"a=\x00", ""},
		"no ASCII":                 {"a=é", ""},
		"one wrong member":         {"a=1,B=2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trace := Trace(traced, c.text)
			require.Equal(t, traced, messages.TraceParent(trace), "a wrong tracestate costs no trace")
			require.Equal(t, c.want, messages.TraceState(trace))
			require.Equal(t, trace, ParseTrace(trace), "what is stored is read back as it is")
			require.Empty(t, Trace("", c.text), "without a traceparent it means nothing")
		})
	}
}

func TestATraceInTheSubmission(t *testing.T) {
	t.Parallel()
	r := Request{ActionRef: "a.b", Trace: traced + " a=1"}
	require.Nil(t, r.Check())
	e, err := Complete(&r, &messages.Action{Ref: "a.b"}, &Terms{})
	require.NoError(t, err)
	require.Equal(t, traced+" a=1", e.Trace)
	require.Equal(t, []any{"execution", e.ID, "trace_id", tracedID}, e.LogFields())
	require.Equal(t, (&Request{ActionRef: "a.b"}).Hash(), r.Hash(), "the same request of another trace is the same request")

	r.Trace = "00-abc"
	p := r.Check()
	require.NotNil(t, p)
	require.Contains(t, p.Message, `trace must be a W3C traceparent`)
	require.Contains(t, p.Message, `"00-abc"`)
	r.Trace = ""
	e, err = Complete(&r, &messages.Action{Ref: "a.b"}, &Terms{})
	require.NoError(t, err)
	require.Empty(t, e.Trace)
	require.Equal(t, []any{"execution", e.ID}, e.LogFields())
}

// FuzzTrace holds that whatever comes in, what is kept is short, printable, and read back as it is.
func FuzzTrace(f *testing.F) {
	f.Add(traced, "a=1,b=2")
	f.Add("cc"+traced[2:]+"-x", " a = 1")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, parent, state string) {
		trace := Trace(parent, state)
		if trace == "" {
			return
		}
		require.Equal(t, trace, ParseTrace(trace))
		require.LessOrEqual(t, len(trace), parentLen+1+stateMax)
		require.Len(t, messages.TraceParent(trace), parentLen)
		require.Len(t, messages.TraceID(trace), 32)
		require.False(t, strings.ContainsFunc(trace, func(c rune) bool { return c < ' ' || c > '~' }))
	})
}
