package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
)

func TestHead(t *testing.T) {
	t.Parallel()
	due, later := store.Turn{}, store.Turn{Ahead: true}
	again, backed := store.Turn{GivenBack: true}, store.Turn{Ahead: true, GivenBack: true}
	cases := map[string]struct {
		line []store.Turn
		busy bool
		want int
	}{
		"nothing waits":                           {nil, false, -1},
		"the first one":                           {[]store.Turn{due, due}, false, 0},
		"a busy session has none":                 {[]store.Turn{due}, true, -1},
		"a scheduled start does not hold it":      {[]store.Turn{later, due}, false, 1},
		"only scheduled starts":                   {[]store.Turn{later, later}, false, -1},
		"what was given back at once goes first":  {[]store.Turn{again, due}, false, 0},
		"a back-off holds its session":            {[]store.Turn{backed, due}, false, -1},
		"behind a scheduled start, too":           {[]store.Turn{later, backed, due}, false, -1},
		"a back-off does not hold what is before": {[]store.Turn{due, backed}, false, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, store.Head(c.line, c.busy))
		})
	}
}
