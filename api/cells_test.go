package api

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

func TestTheFleetIsShownNowAndAtATime(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	at := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	h := New(Config{Backend: b, Now: func() time.Time { return at }})
	path := "/api/v1/fleet"
	b.unreached = []view.Unreached{{Node: "b", Why: "silent"}}
	live := read[Fleet](t, ask(t, h, "GET", path, ""), 200)
	require.Equal(t, []string{"a", "go", "rb", "hh"}, []string{live.Pools[0].Node, live.Pools[0].Name, live.Pools[0].Slots, live.Pools[0].Grades})
	require.Equal(t, "b", live.Unreached[0].Node)

	of := func(text string) string { return path + "?at=" + url.QueryEscape(text) }
	then := read[Fleet](t, ask(t, h, "GET", of("2030-01-31T07:00:00.5+00:00"), ""), 200)
	require.Equal(t, at.Add(-time.Hour+time.Second/2), then.At.UTC())
	require.True(t, then.Partial)
	require.Equal(t, []string{"no node is recorded that lived then"}, then.Notes)
	require.Equal(t, at, read[Fleet](t, ask(t, h, "GET", of("2030-01-31T08:00:30Z"), ""), 200).At.UTC(), "a clock that is ahead")
	for text, want := range map[string]string{"2030-01-31T08:02:00Z": "not past", "yesterday": "must be a time"} {
		refused(t, ask(t, h, "GET", of(text), ""), 400, messages.CodeInvalidRequest, want)
	}
}
