package live

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func entries(pairs ...string) []Entry {
	list := make([]Entry, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, Entry{Key: pairs[i], Value: json.RawMessage(pairs[i+1])})
	}
	return list
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		lists  Lists
		want   []Entry
		wrong  string
	}{
		"fields alone":            {`{"b":1,"a":{"x":[1,2]}}`, nil, entries("b", "1", "a", `{"x":[1,2]}`), ""},
		"elements by their names": {`{"rows":[{"id":"x","n":1},{"id":"y"}],"more":true}`, Lists{"rows": {"id"}}, entries("rows/x", `{"id":"x","n":1}`, "rows/y", `{"id":"y"}`, "more", "true"), ""},
		"names of two members":    {`{"rows":[{"node":"a","n":7}]}`, Lists{"rows": {"node", "n"}}, entries("rows/a 7", `{"node":"a","n":7}`), ""},
		"two of one name":         {`{"rows":[{"id":"x"},{"id":"x"},{}]}`, Lists{"rows": {"id"}}, entries("rows/x", `{"id":"x"}`, "rows/x #2", `{"id":"x"}`, "rows/", `{}`), ""},
		"an empty list":           {`{"rows":[]}`, Lists{"rows": {"id"}}, entries("rows", `[]`), ""},
		"no list":                 {`{"rows":null}`, Lists{"rows": {"id"}}, entries("rows", `null`), ""},
		"nothing":                 {`{}`, nil, nil, ""},
		"a list":                  {`[1]`, nil, nil, "begins with {"},
		"half an object":          {`{"a":1`, nil, nil, "split an answer"},
		"elements that are none":  {`{"rows":[1]}`, Lists{"rows": {"id"}}, nil, "field rows"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Split([]byte(c.answer), c.lists)
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// Whatever an answer has, its parts are those that encoding/json finds.
func TestSplitFindsWhatStandsThere(t *testing.T) {
	t.Parallel()
	texts := rapid.SampledFrom([]string{"", "a", `"`, `\`, `\"`, "}", "]", ",", ":", "{\"a\":1}", "ä\n", "[]"})
	value := rapid.Deferred(func() *rapid.Generator[any] { return jsonValue(texts, 3) })
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.MapOfN(rapid.SampledFrom([]string{"id", "n", "x"}), value, 0, 3), 0, 4).Draw(t, "rows")
		answer, err := json.Marshal(map[string]any{"before": value.Draw(t, "before"), "rows": rows, "zafter": value.Draw(t, "after")})
		require.NoError(t, err)
		got, err := Split(answer, Lists{"rows": {"id"}})
		require.NoError(t, err)
		var whole struct {
			Before, Zafter json.RawMessage
			Rows           []json.RawMessage
		}
		require.NoError(t, json.Unmarshal(answer, &whole))
		require.Equal(t, string(whole.Before), string(got[0].Value))
		require.Equal(t, string(whole.Zafter), string(got[len(got)-1].Value))
		if len(rows) == 0 {
			require.Equal(t, Entry{Key: "rows", Value: json.RawMessage("[]")}, got[1])
			return
		}
		require.Len(t, got, len(rows)+2)
		seen := map[string]int{}
		for i, row := range whole.Rows {
			var named struct{ ID json.RawMessage }
			require.NoError(t, json.Unmarshal(row, &named))
			key := "rows/" + strings.Trim(string(named.ID), `"`)
			if seen[key]++; seen[key] > 1 {
				key += fmt.Sprintf(" #%d", seen[key])
			}
			require.Equal(t, Entry{Key: key, Value: row}, got[i+1])
		}
	})
}

// jsonValue draws values of JSON that nest so deep.
func jsonValue(texts *rapid.Generator[string], depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(rapid.Map(texts, func(s string) any { return s }), rapid.Map(rapid.Float64Range(-1e9, 1e9), func(f float64) any { return f }),
		rapid.SampledFrom([]any{nil, true, false}))
	if depth == 0 {
		return scalar
	}
	inner := rapid.Deferred(func() *rapid.Generator[any] { return jsonValue(texts, depth-1) })
	return rapid.OneOf(scalar, rapid.Map(rapid.SliceOfN(inner, 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(texts, inner, 0, 3), func(m map[string]any) any { return m }))
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to []Entry
		want     string
	}{
		"nothing changes":         {entries("a", "1"), entries("a", "1"), `{}`},
		"another value":           {entries("a", "1", "b", "2"), entries("a", "1", "b", "3"), `{"set":[["b",3]]}`},
		"new rows stand in front": {entries("a", "1"), entries("c", "3", "b", "2", "a", "1"), `{"set":[["c",3],["b",2]]}`},
		"one goes":                {entries("a", "1", "b", "2"), entries("b", "2"), `{"gone":["a"]}`},
		"a window moves":          {entries("b", "2", "a", "1"), entries("c", "3", "b", "2"), `{"set":[["c",3]],"gone":["a"]}`},
		"new at the end":          {entries("a", "1"), entries("a", "1", "b", "2"), `{"set":[["b",2]],"keys":["a","b"]}`},
		"another order":           {entries("a", "1", "b", "2"), entries("b", "2", "a", "1"), `{"keys":["b","a"]}`},
		"everything goes":         {entries("a", "1"), nil, `{"gone":["a"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Diff(c.from, c.to)
			text, err := json.Marshal(&got)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(text))
			require.Equal(t, c.want == `{}`, got.Empty())
		})
	}
}

// state draws entries with different keys.
func state(t *rapid.T, name string) []Entry {
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}), 0, 7, rapid.ID[string]).Draw(t, name)
	var list []Entry
	for _, key := range keys {
		list = append(list, Entry{Key: key, Value: json.RawMessage(fmt.Sprint(rapid.IntRange(0, 2).Draw(t, name+key)))})
	}
	return list
}

// A snapshot and the differences behind it, as they are after a way through JSON, give the state that the node has.
func TestSnapshotAndDifferencesGiveTheState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var held, has []Entry
		for i := range rapid.IntRange(1, 8).Draw(t, "steps") {
			next := state(t, fmt.Sprintf("state %d", i))
			change := Diff(has, next)
			if i == 0 {
				change = Snapshot(next)
			}
			text, err := json.Marshal(&change)
			require.NoError(t, err)
			var heard Change
			require.NoError(t, json.Unmarshal(text, &heard))
			held, err = heard.Apply(held)
			require.NoError(t, err)
			require.True(t, slices.EqualFunc(next, held, func(a, b Entry) bool { return a.Key == b.Key && string(a.Value) == string(b.Value) }))
			has = next
		}
	})
}

// A change that belongs to another state is refused where that can be seen.
func TestAChangeOfAnotherStateIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Change{
		"what goes is not there":    {Gone: []string{"x"}},
		"the order has another key": {Keys: []string{"x"}},
		"the order has too few":     {Set: []Pair{{"b", json.RawMessage("1")}}, Keys: []string{"a"}},
	} {
		_, err := c.Apply(entries("a", "1"))
		require.Error(t, err, name)
	}
	var p Pair
	require.Error(t, json.Unmarshal([]byte(`["a"]`), &p))
}

func TestRing(t *testing.T) {
	t.Parallel()
	r := NewRing(3, 10, func(s string) int { return len(s) })
	_, all := r.After(0)
	require.True(t, all)
	for i, item := range []string{"a", "b", "c"} {
		n, dropped := r.Add(item)
		require.Equal(t, int64(i+1), n)
		require.Zero(t, dropped)
	}
	items, all := r.After(1)
	require.True(t, all)
	require.Equal(t, []string{"b", "c"}, items)
	_, dropped := r.Add("d")
	require.Equal(t, 1, dropped, "a fourth")
	_, all = r.After(0)
	require.False(t, all, "the first was dropped")
	_, dropped = r.Add("eeeeeeeee")
	require.Equal(t, 2, dropped, "12 bytes")
	items, all = r.After(3)
	require.True(t, all)
	require.Equal(t, []string{"d", "eeeeeeeee"}, items)
	_, all = r.After(6)
	require.False(t, all, "a number that was never given")
	_, dropped = r.Add("ffffffffffff")
	require.Equal(t, 3, dropped, "larger than the ring")
	require.Equal(t, int64(6), r.Last())
	items, all = r.After(6)
	require.True(t, all)
	require.Empty(t, items)
}

// Whatever is added, a ring holds its bounds, and gives what follows a number or says that it cannot.
func TestARingGivesAllOrSaysSo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most, bytes := rapid.IntRange(1, 5).Draw(t, "items"), rapid.IntRange(1, 20).Draw(t, "bytes")
		r := NewRing(most, bytes, func(n int) int { return n })
		var given []int
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 12), 0, 30).Draw(t, "sizes") {
			number, _ := r.Add(n)
			given = append(given, n)
			require.Equal(t, int64(len(given)), number)
			require.LessOrEqual(t, len(r.items), most)
			require.LessOrEqual(t, r.bytes, bytes)
		}
		for from := range len(given) + 1 {
			if items, all := r.After(int64(from)); all {
				require.True(t, slices.Equal(given[from:], items))
			} else {
				require.Greater(t, len(given)-from, len(items))
			}
		}
	})
}
