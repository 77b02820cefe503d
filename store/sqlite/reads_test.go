package sqlite_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

// grownAt is when Grow's executions were requested, a microsecond apart.
func grownAt(n int) time.Time { return time.UnixMicro(1_800_000_000_000_000 + int64(n)) }

// consoleReads are the lists that a page for operators asks for, in a store that Grow has filled with so many rows.
func consoleReads(rows int) map[string]store.Filter {
	failed := []messages.Status{messages.Failed, messages.TimedOut, messages.Abandoned}
	mid := grownAt(rows / 2)
	return map[string]store.Filter{
		"all": {}, "oldest": {Oldest: true}, "failed": {Statuses: failed}, "completed": {Statuses: []messages.Status{messages.Completed}},
		"running": {Statuses: []messages.Status{messages.Running, messages.Cancelling}}, "requested": {Statuses: []messages.Status{messages.Requested}},
		"action": {Actions: []string{"core.a1"}}, "no such action": {Actions: []string{"core.none"}}, "pool": {Pools: []string{"pool1"}}, "no such pool": {Pools: []string{"none"}},
		"session": {Sessions: []string{"s5"}}, "no such session": {Sessions: []string{"none"}}, "failed of a session": {Sessions: []string{"s500"}, Statuses: failed},
		"worker": {Workers: []string{"n/pool/7"}}, "no such worker": {Workers: []string{"n/pool/none"}}, "failed of a worker": {Workers: []string{"n/pool/7"}, Statuses: failed},
		"label": {Labels: [][2]string{{"k", "v10"}}}, "no such label": {Labels: [][2]string{{"k", "none"}}}, "two labels": {Labels: [][2]string{{"k", "v10"}, {"l", "w"}}},
		"error": {Errors: []messages.Code{"boom"}}, "text": {Texts: []string{"boom"}}, "no such text": {Texts: []string{"nowhere"}}, "key": {Keys: []string{"order-1"}}, "id": {IDPrefixes: []string{"01a2"}}, "no such id": {IDPrefixes: []string{"ffffffffffffffff"}},
		"since": {From: mid}, "until": {To: mid}, "within": {From: mid, To: grownAt(rows/2 + 1000)}, "failed within": {Statuses: failed, From: mid, To: grownAt(rows/2 + 1000)},
		"failed until, oldest first": {Statuses: failed, To: mid, Oldest: true}, "not completed": {Not: store.Exclusion{Statuses: []messages.Status{messages.Completed}}},
		"not any action": {Not: store.Exclusion{Actions: []string{"core.a0", "core.a1", "core.a2", "core.a3", "core.a4", "core.a5", "core.a6", "core.a7", "core.a8", "core.a9"}}},
		"actions":        {Actions: []string{"core.a1", "core.a2"}}, "no such actions": {Actions: []string{"core.none", "core.nil"}}, "pools": {Pools: []string{"pool1", "pool2"}}, "no such pools": {Pools: []string{"none", "nil"}},
		"sessions": {Sessions: several("s", 20)}, "no such sessions": {Sessions: []string{"none", "nil"}}, "failed of sessions": {Sessions: several("s50", 20), Statuses: failed},
		"workers": {Workers: []string{"n/pool/7", "n/pool/8"}}, "no such workers": {Workers: []string{"n/pool/none", "n/pool/nil"}}, "errors": {Errors: []messages.Code{"boom", "none"}},
		"no such pool of actions": {Actions: several("core.a", 20), Pools: []string{"none"}}, "the same, oldest first": {Actions: several("core.a", 20), Pools: []string{"none"}, Oldest: true},
		"keys": {Keys: []string{"order-1", "order-2", "none"}}, "ids": {IDPrefixes: []string{"01a2", "ffff"}}, "no such texts": {Texts: []string{"nowhere", "nothing"}},
		"labels of a name": {Labels: [][2]string{{"k", "v10"}, {"k", "v11"}}}, "two names of labels": {Labels: [][2]string{{"k", "v10"}, {"k", "v11"}, {"l", "w"}}},
		"not a text": {Not: store.Exclusion{Texts: []string{"boom"}}}, "not keys": {Not: store.Exclusion{Keys: []string{"order-1", "order-2"}}},
		"failed but a text": {Statuses: failed, Not: store.Exclusion{Texts: []string{"b"}}}, "not any id": {Not: store.Exclusion{IDPrefixes: []string{"0"}}},
		"not retries": {Not: store.Exclusion{Was: []store.Was{store.WasRetry}}}, "not any label": {Not: store.Exclusion{Labels: [][2]string{{"k", "v10"}}}},
		"waiting in pools": {Pools: []string{"pool1", "none"}, Statuses: []messages.Status{messages.Requested, messages.Running}},
	}
}

// several are so many names that begin so.
func several(begin string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(begin, i))
	}
	return names
}

// stepsMax are the instructions of SQLite's machine that a list runs for each execution that it may look at. A list that looked at all of these
// stores' executions would run several times as many.
const stepsMax = 30

// The work of a list is bounded, however many executions are stored.
func TestListsOfALargeStoreAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 150,000 rows: not with -short")
	}
	t.Parallel()
	listsAreBounded(t, 150_000)
}

// TestWholeListsAreBounded is the same with a million rows: make chaos.
func TestWholeListsAreBounded(t *testing.T) {
	if os.Getenv("TROUPE_CHAOS") != "whole" {
		t.Skip("a million rows: make chaos, or TROUPE_CHAOS=whole")
	}
	listsAreBounded(t, 1_000_000)
}

func listsAreBounded(t *testing.T, rows int) {
	s := open(t, sqlite.Config{ListFor: time.Minute}) // its walks are counted
	sqlite.Grow(t, s, rows)
	for name, f := range consoleReads(rows) {
		sqlite.Steps(t, s)
		began := time.Now()
		page, err := s.List(t.Context(), f)
		require.NoError(t, err, name)
		steps := sqlite.Steps(t, s)
		t.Logf("%s: %d executions, %d instructions, %s", name, len(page.Executions), steps, time.Since(began).Round(time.Microsecond))
		require.Less(t, steps, stepsMax*store.ListWalk, name)
	}
	sqlite.Steps(t, s)
	counted, err := s.CountRequested(t.Context(), store.CountQuery{From: grownAt(0), To: grownAt(rows), Most: store.ListWalk})
	require.NoError(t, err)
	require.Equal(t, grownAt(store.ListWalk).UTC(), counted.Until)
	steps := sqlite.Steps(t, s)
	t.Logf("a count: %d instructions", steps)
	require.Less(t, steps, stepsMax*store.ListWalk)
}

// What a filter is not about is read only of the executions that match: a walk for an error code that is nowhere reads no requests. It is not
// parallel: all connections of the process share the room for pages, and other tests would have those dropped that it counts.
func TestAFilterReadsItsTables(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 40,000 rows: not with -short")
	}
	s := open(t, sqlite.Config{ListFor: time.Minute})
	sqlite.Grow(t, s, 40_000)
	misses := func(f store.Filter) int {
		sqlite.Misses(t, s)
		_, err := s.List(t.Context(), f)
		require.NoError(t, err)
		return sqlite.Misses(t, s)
	}
	failed := []messages.Status{messages.Failed}
	states := misses(store.Filter{Statuses: failed, Errors: []messages.Code{"none"}})
	both := misses(store.Filter{Statuses: failed, Not: store.Exclusion{Actions: []string{"core.a0"}}})
	t.Logf("pages that a walk reads: %d of states, %d with requests", states, both)
	require.Less(t, 4*states, 3*both)
}
