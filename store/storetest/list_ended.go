package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// endedAmid is when one of the executions ended, before which and after which others did.
func endedAmid(stored []messages.Execution) time.Time {
	var ends []time.Time
	for _, e := range stored {
		if !e.FinishedAt.IsZero() {
			ends = append(ends, e.FinishedAt)
		}
	}
	return ends[len(ends)/2]
}

// testListEnded looks at how many executions a list of what ended in a time looks at.
func testListEnded(t *testing.T, k *kit) {
	stored := k.bringVaried(t)
	first, last := stored[len(stored)-1].RequestedAt, stored[0].RequestedAt
	for name, c := range map[string]struct {
		f    store.Filter
		want int
	}{
		"what was requested up to a day before": {store.Filter{EndedFrom: last.Add(store.EndedLife - time.Hour)}, len(stored)},
		"nothing that is older":                 {store.Filter{EndedFrom: last.Add(store.EndedLife + time.Hour)}, 0},
		"as far back as is asked for":           {store.Filter{EndedFrom: last.Add(store.EndedLife + time.Hour), From: first.Add(-time.Hour)}, len(stored)},
		"nothing that was requested after it":   {store.Filter{EndedTo: first.Add(-time.Hour)}, 0},
	} {
		for _, c.f.Oldest = range []bool{false, true} {
			page, err := k.List(t.Context(), c.f)
			require.NoError(t, err)
			require.Empty(t, page.Executions, name)
			require.Equal(t, store.Searched{Walked: c.want}, page.Searched, name)
			require.Equal(t, store.MoreEnd, page.More, name)
		}
	}
}
