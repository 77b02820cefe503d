package submit

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDeeperCountsWhatTheParserNests(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Custom(func(t *rapid.T) any { return value(t, rapid.IntRange(0, 6).Draw(t, "depth")) }).Draw(t, "value")
		text, err := json.Marshal(v)
		require.NoError(t, err)
		depth := depthOf(v)
		require.False(t, deeper(text, depth))
		if depth > 0 {
			require.True(t, deeper(text, depth-1))
		}
	})
}

func value(t *rapid.T, depth int) any {
	switch rapid.IntRange(0, 2).Draw(t, "kind") * min(depth, 1) {
	case 1:
		return []any{value(t, depth-1), rapid.String().Draw(t, "text")}
	case 2:
		return map[string]any{rapid.SampledFrom([]string{`"`, `\`, `{[`, "a"}).Draw(t, "key"): value(t, depth-1)}
	}
	return rapid.SampledFrom([]string{`"`, `\"`, `\\`, `[[[[`, `}}}`, ""}).Draw(t, "leaf")
}

func depthOf(v any) int {
	most := -1
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			most = max(most, depthOf(item))
		}
		return max(most, 0) + 1
	case map[string]any:
		for _, item := range v {
			most = max(most, depthOf(item))
		}
		return max(most, 0) + 1
	}
	return 0
}
