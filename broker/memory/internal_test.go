package memory

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestMatchTopicAgreesWithARegularExpression: * matches one word and # any number, in all patterns.
func TestMatchTopicAgreesWithARegularExpression(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", "#"}), 1, 7).Draw(t, "pattern")
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 7).Draw(t, "words")
		var expr strings.Builder
		for _, p := range pattern {
			switch p {
			case "*":
				expr.WriteString(`\w\.`)
			case "#":
				expr.WriteString(`(\w\.)*`)
			default:
				expr.WriteString(p + `\.`)
			}
		}
		want := regexp.MustCompile("^" + expr.String() + "$").MatchString(strings.Join(words, ".") + ".")
		require.Equal(t, want, matchTopic(pattern, words))
	})
}

func TestMatchTopicIsCheapForManyHashes(t *testing.T) {
	t.Parallel()
	pattern := strings.Split(strings.Repeat("#.a.", 60)+"b", ".")
	words := strings.Split(strings.Repeat("a.", 120)+"c", ".")
	require.False(t, matchTopic(pattern, words))
}

// TestRingIsADeque compares the ring with a slice.
func TestRingIsADeque(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r ring
		var model []*entry
		t.Repeat(map[string]func(*rapid.T){
			"back": func(*rapid.T) {
				e := &entry{}
				r.pushBack(e)
				model = append(model, e)
			},
			"front": func(*rapid.T) {
				e := &entry{}
				r.pushFront(e)
				model = append([]*entry{e}, model...)
			},
			"pop": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("empty")
				}
				require.Same(t, model[0], r.front())
				require.Same(t, model[0], r.popFront())
				model = model[1:]
			},
			"": func(t *rapid.T) { require.Equal(t, len(model), r.length) },
		})
	})
}
