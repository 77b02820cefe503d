package debug

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/live"
)

// changeOf reads the trees again, and returns the difference as it is sent.
func changeOf(t *testing.T, read func(context.Context) ([]live.Entry, error), held *[]live.Entry) (live.Change, string) {
	t.Helper()
	next, err := read(t.Context())
	require.NoError(t, err)
	change := live.Diff(*held, next)
	text, err := json.Marshal(&change)
	require.NoError(t, err)
	*held = next
	return change, string(text)
}

// One worker among a thousand that changes, and one that is replaced, write little, though all have handled messages since.
func TestAChangedWorkerAmongAThousandWritesLittle(t *testing.T) {
	t.Parallel()
	cfg := crowd(1000)
	infos := cfg.Source.(fixed).infos
	read := cfg.Follow("")
	var held []live.Entry
	_, whole := changeOf(t, read, &held)
	require.Greater(t, len(whole), 200_000)
	heartbeat := func() {
		for i := range infos {
			infos[i].Handled++
		}
	}
	heartbeat()
	_, same := changeOf(t, read, &held)
	require.Less(t, len(same), 1_000, "the times of the node alone")

	at := slices.IndexFunc(infos, func(i actors.Info) bool { return i.ID == "troupe/pools/go/500.1" })
	infos[at].State = "busy"
	heartbeat()
	busy, text := changeOf(t, read, &held)
	require.Contains(t, text, `"state":"busy"`)
	require.Empty(t, busy.Gone)
	require.Less(t, len(text), 1_500)

	infos[at].ID = "troupe/pools/go/500.2"
	heartbeat()
	replaced, again := changeOf(t, read, &held)
	require.Len(t, replaced.Gone, 1)
	require.Empty(t, replaced.Keys, "a new actor stands first, so that nothing is said of the others")
	require.Less(t, len(again), 1_500)
	t.Logf("a snapshot of 1,000 workers has %d bytes, a difference without a change %d, with one changed worker %d, with one replaced %d", len(whole), len(same), len(text), len(again))
}

// An actor is followed as it is, whatever goes on around it.
func TestFollowedActors(t *testing.T) {
	t.Parallel()
	cfg := crowd(2 + followedMost)
	read := cfg.Follow("n")
	var held []live.Entry
	changeOf(t, read, &held)
	value := func(id string) string {
		for _, e := range held {
			if strings.HasSuffix(e.Key, id) {
				return string(e.Value)
			}
		}
		return ""
	}
	require.Contains(t, value("/troupe/pools/go"), `"hidden":{"count":2,"states":{"ready":2}}`, "as many as the page asks for")
	require.NotContains(t, value("/troupe/pools/go"), "handled")
	cfg.Source = fixed{infos: crowd(1).Source.(fixed).infos}
	read = cfg.Follow("n")
	changeOf(t, read, &held)
	require.Contains(t, value("/troupe/pools/go"), `"mailbox_depth":0`)
	require.NotContains(t, value("/troupe/pools/go"), "hidden")
	require.Len(t, held, 5+1+1)

	_, err := cfg.Follow("other")(t.Context())
	var p *messages.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, messages.CodeNotFound, p.Code)
	require.Contains(t, p.Message, "no live node other is known here; live are n")
}

// An answer that is late is shown by the next reading, so that one slow node does not have all be read seldom.
func TestFollowingDoesNotWaitForSlowNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet("a", "b", "c")
		f.nodes[1].takes = 500 * time.Millisecond
		read := f.config(t).Follow("")
		ageOf := func() (slow, quick *int64) {
			begun := time.Now()
			entries, err := read(t.Context())
			require.NoError(t, err)
			require.Equal(t, failingTime, time.Since(begun))
			ages := map[string]*int64{}
			for _, e := range entries {
				if strings.Count(e.Key, "/") == 1 {
					var p Part
					require.NoError(t, json.Unmarshal(e.Value, &p))
					require.Equal(t, p.Tree == nil, p.Error == "it has not answered yet", p.Error)
					ages[p.Node] = p.AgeMS
				}
			}
			return ages["b"], ages["c"]
		}
		slow, quick := ageOf()
		require.Nil(t, slow)
		require.Equal(t, int64(100), *quick)
		for range 2 {
			time.Sleep(2 * time.Second)
			slow, quick = ageOf()
			require.Equal(t, int64(2_200), *slow, "asked for by the reading before")
			require.Equal(t, int64(100), *quick)
		}
	})
}
