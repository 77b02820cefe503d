package store_test

import (
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
