package live

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParsePlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Place{
		"a.0": {"a", 0}, "a-1.12": {"a-1", 12}, "a.b.3": {"a.b", 3},
		"": {}, ".": {}, ".1": {}, "a": {}, "a.": {}, "a.x": {}, "a.-1": {}, "a.1.": {}, "a.99999999999999999999": {},
	} {
		got, valid := ParsePlace(text)
		require.Equal(t, want, got, text)
		require.Equal(t, want != Place{}, valid, text)
		if valid {
			require.Equal(t, text, got.String())
		}
	}
}

func TestPart(t *testing.T) {
	t.Parallel()
	r := NewRing(4, 100, func(s string) int { return len(s) })
	for _, item := range []string{"1", "2", "3", "4", "55555", "6"} { // the first two are dropped
		r.Add(item)
	}
	for name, c := range map[string]struct {
		after int64
		room  int
		items []string
		lost  int64
		next  int64
	}{
		"from the beginning, some of which is lost": {0, 100, []string{"3", "4", "55555", "6"}, 2, 6},
		"from what is just kept":                    {2, 100, []string{"3", "4", "55555", "6"}, 0, 6},
		"one of what is kept was lost":              {1, 1, []string{"3"}, 1, 3},
		"what fits exactly":                         {2, 7, []string{"3", "4", "55555"}, 0, 5},
		"what does not quite fit":                   {2, 6, []string{"3", "4"}, 0, 4},
		"one that is larger than the room":          {4, 1, []string{"55555"}, 0, 5},
		"no room":                                   {5, 0, []string{"6"}, 0, 6},
		"nothing is left":                           {6, 100, []string{}, 0, 6},
	} {
		items, lost, next := r.Part(c.after, c.room)
		require.Equal(t, c.items, items, name)
		require.Equal(t, c.lost, lost, name)
		require.Equal(t, c.next, next, name)
	}
}

// Whatever is added and dropped, a reader that takes parts has each item once and in order, and knows how many it lacks.
func TestPartsLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := NewRing(rapid.IntRange(1, 6).Draw(t, "items"), 40, func(int) int { return 10 })
		var at, said, missed int64
		var had []int
		take := func() {
			items, lost, next := r.Part(at, rapid.IntRange(0, 50).Draw(t, "room"))
			require.Equal(t, at+lost+int64(len(items)), next)
			require.Equal(t, next == r.Last(), len(items) == 0 || items[len(items)-1] == int(said))
			at, missed, had = next, missed+lost, append(had, items...)
		}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				take()
			case 1:
				r.Drop()
			default:
				said++
				r.Add(int(said))
			}
		}
		for at < r.Last() {
			take()
		}
		require.Equal(t, said, missed+int64(len(had)))
		for i := 1; i < len(had); i++ {
			require.Greater(t, had[i], had[i-1])
		}
	})
}
