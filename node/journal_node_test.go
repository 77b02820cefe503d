package node_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	rules "github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/servers"
)

// journal is what the store holds, oldest first, as "kind subject what reason caller". A condition that changed several times has a
// line for each of them.
func journal(t *testing.T, s store.Store, kinds ...messages.JournalKind) (lines []string) {
	t.Helper()
	page, err := s.ReadJournal(t.Context(), store.JournalQuery{Kinds: kinds, Limit: 1000})
	require.NoError(t, err)
	for _, e := range page.Entries {
		line := func(reason string) string {
			return fmt.Sprintf("%s %s %s %s %s", e.Kind, e.Subject, e.What, reason, e.Caller)
		}
		lines = append(lines, line(e.Reason))
		var several rules.ConditionDetail
		if e.What == rules.ConditionChanged && json.Unmarshal(e.Detail, &several) == nil {
			for reason := range several.Shares {
				lines = append(lines, line(reason))
			}
		}
	}
	return lines
}

// recorded waits until the journal has the lines.
func (k *kit) recorded(lines ...string) {
	k.t.Helper()
	var found []string
	defer func() {
		if k.t.Failed() {
			k.t.Log("the journal:\n", strings.Join(found, "\n"))
		}
	}()
	k.until(fmt.Sprint("the journal has ", lines), func() bool {
		found = journal(k.t, k.Adapter())
		return !slices.ContainsFunc(lines, func(line string) bool { return !slices.Contains(found, line) })
	})
}

// A node records that it came and goes, the condition of its pools, the bindings of sessions, and what operators do.
func TestANodeRecordsWhatHappens(t *testing.T) {
	t.Parallel()
	data, pack := t.TempDir(), goPack(t, map[string]string{"noop": ""})
	settings := handle(map[string]messages.Handler{"noop": noop})
	k := boot(t, data, settings, pack)
	inc := k.Incarnation().String()
	k.recorded("node "+inc+" joined  ", "pool go condition ready ")
	require.NoError(t, k.Backend.CordonPool(t.Context(), "go", true, "ann"))
	require.NoError(t, k.Backend.CordonNode(t.Context(), "test", true, "ann"))
	k.recorded("operator go cordon  ann", "operator test cordon  ann", "pool go condition workers_cordoned ")
	waiting := k.submit("t.noop", nil)
	_, err := k.Backend.Cancel(t.Context(), waiting, "bob")
	require.NoError(t, err)
	_, err = k.Backend.Reload(t.Context(), "eve")
	require.NoError(t, err)
	k.recorded("operator "+waiting.String()+" cancel  bob", "operator test reload  eve")
	require.NoError(t, k.stop())

	k = boot(t, data, settings, pack)
	k.recorded("node "+inc+" draining  ", "node "+inc+" stopped  ", "pool go condition handed_over ", "node "+k.Incarnation().String()+" joined  ")
}

// What a node records while its store is away is written when that is back, with the times at which it happened.
func TestAnOutageIsRecorded(t *testing.T) {
	t.Parallel()
	k, s, b := fullLab(t, map[string]messages.Handler{"noop": noop})
	k.recorded("pool go condition ready ")
	b.set(broker.Status{Reason: "connection refused"})
	k.recorded("server broker away connection refused ", "pool go condition broker_away ")
	b.set(broker.Status{Up: true})
	k.recorded("server broker back  ")
	s.away.Store(true)
	k.until("the store is known to be away", func() bool { return k.logged("store is away") > 0 })
	k.until("the journal is not written", func() bool { return k.logged("monitor=journal") > 0 })
	before, err := s.Store.Now(t.Context())
	require.NoError(t, err)
	s.away.Store(false)
	k.recorded("server store away "+errAway.Error()+" ", "server store back  ", "pool go condition store_away ")
	found, err := s.ReadJournal(t.Context(), store.JournalQuery{Subjects: []string{"store"}})
	require.NoError(t, err)
	require.True(t, found.Entries[0].At.Before(before))
}

// Of two nodes the router records that it took the pool, and so does the one that takes it after it. The other records that it follows.
func theClusterIsRecorded(t *testing.T) {
	t.Helper()
	servers.Unraced(t)
	r := startRing(t, ringPack(t), "", broker.Settings{}, func(*node.Config) {}, []string{"a", "b"})
	router := r.settled(2)
	other := r.others(router)[0]
	router.recorded("node "+router.Incarnation().String()+" joined  ", "router "+ringPool+" taken  ", "pool "+ringPool+" condition ready ",
		"router "+ringPool+" following "+router.name+" ")
	require.NoError(t, router.stop())
	other.until("another took the pool", func() bool {
		taken := slices.DeleteFunc(journal(t, other.Adapter(), messages.JournalRouter), func(line string) bool { return line != "router "+ringPool+" taken  " })
		return len(taken) == 2
	})
	other.recorded("node "+router.Incarnation().String()+" stopped  ", "router "+ringPool+" given_up  ")
}
