package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/store"
)

// TestPrefixEnd checks that what begins with a prefix is below its end, and that nothing else is between them.
func TestPrefixEnd(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"": "", "a": "b", "user-": "user.", "é": "ê", "a\U0010FFFF": "b", "\U0010FFFF": "", "\uD7FF": "\uE000", "\x7f": "\u0080",
	} {
		require.Equal(t, want, store.PrefixEnd(prefix), "%q", prefix)
	}
	rapid.Check(t, func(t *rapid.T) {
		prefix, rest, other := rapid.StringN(1, 8, -1).Draw(t, "prefix"), rapid.String().Draw(t, "rest"), rapid.String().Draw(t, "other")
		end := store.PrefixEnd(prefix)
		if end == "" {
			return
		}
		require.Less(t, prefix+rest, end)
		within := prefix <= other && other < end
		require.Equal(t, len(other) >= len(prefix) && other[:len(prefix)] == prefix, within)
	})
}

// TestNameRanges checks that the ranges have the names with a wanted beginning and none of an unwanted one, in order and apart.
func TestNameRanges(t *testing.T) {
	t.Parallel()
	require.Equal(t, []store.NameRange{{From: "a", To: "b"}}, store.NameRanges([]string{"ab", "a"}, nil), "one has the other")
	require.Equal(t, []store.NameRange{{To: "b"}, {From: "c"}}, store.NameRanges(nil, []string{"b"}))
	require.Empty(t, store.NameRanges([]string{"ab"}, []string{"a"}))
	texts := rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune{'a', 'b', 'c', 0xD7FF, 0xE000, 0x10FFFF}), 1, 3, -1), 0, 4)
	begins := func(name string, prefixes []string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	rapid.Check(t, func(t *rapid.T) {
		only, not := texts.Draw(t, "only"), texts.Draw(t, "not")
		ranges := store.NameRanges(only, not)
		for i := range ranges {
			require.True(t, ranges[i].To == "" || ranges[i].From < ranges[i].To)
			require.True(t, i == 0 || ranges[i-1].To != "" && ranges[i-1].To <= ranges[i].From)
		}
		for _, name := range append(texts.Draw(t, "names"), "") {
			in := slices.ContainsFunc(ranges, func(r store.NameRange) bool { return name >= r.From && (r.To == "" || name < r.To) })
			require.Equal(t, (len(only) == 0 || begins(name, only)) && !begins(name, not), in, "%q", name)
		}
	})
}
