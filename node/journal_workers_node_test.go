package node_test

import (
	"encoding/json"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// A worker whose process dies stands in the journal with its end, the cause, and that another took its place.
func TestTheJournalTellsOfAWorkerThatDied(t *testing.T) {
	t.Parallel()
	for name, on := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := lab(t, func(c *node.Config) { on(t, c) }, pythonPack(t, "", counting))
			before := k.ready("py.lab", 0, 0)
			h := api.New(api.Config{Backend: k.Backend})
			read := func(query string) []messages.JournalEntry {
				return answered[api.JournalList](t, h, "/api/v1/journal?"+query).Entries
			}
			require.Empty(t, read("kinds=worker"), "that it started is not told")
			require.NoError(t, syscall.Kill(before.Pid, syscall.SIGKILL))
			k.ready("py.lab", 0, before.Generation)
			var told []messages.JournalEntry
			k.until("its end and the restart are told", func() bool {
				told = read("kinds=worker&subject=" + string(before.ID))
				return len(told) == 2
			})
			require.Equal(t, []string{"restarted", "ended"}, []string{told[0].What, told[1].What}, "the newest first")
			require.Contains(t, told[1].Reason, "error: ")
			require.Contains(t, told[0].Reason, "init_complete: after ")
			require.Equal(t, told[:1], read("what=restarted"))
			require.Subset(t, read("limit=1000"), told)
			require.Empty(t, read("kinds=worker&what=degraded"))
		})
	}
}

// A worker that fails to start again and again stands in the journal once, with the reason, and again when it is ready, with how often it failed.
func TestTheJournalTellsOfStartsThatFail(t *testing.T) {
	t.Parallel()
	for name, on := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pack := oddPack(t, "")
			writeFiles(t, pack, files{"refuse": ""})
			k := lab(t, func(c *node.Config) { on(t, c); quickly(c) }, pack)
			h := api.New(api.Config{Backend: k.Backend})
			const id = "test/odd.lab/0"
			read := func() []messages.JournalEntry {
				return answered[api.JournalList](t, h, "/api/v1/journal?kinds=worker&subject="+id).Entries
			}
			k.until("the first is told", func() bool { return len(read()) == 1 })
			k.until("others failed", func() bool { return k.worker("odd.lab", 0).Restarts >= 4 })
			k.remove("refuse")
			k.ready("odd.lab", 0, 4)
			var told []messages.JournalEntry
			k.until("that it is ready is told", func() bool {
				told = read()
				return told[0].What == "restarted"
			})
			require.Len(t, told, 2, "%v", told)
			require.Equal(t, "start_failed", told[1].What)
			require.Contains(t, told[1].Reason, "error: ")
			require.JSONEq(t, `1`, string(detailOf(t, told[1])["starts"]))
			require.Regexp(t, `^init_complete: after \d+ starts that failed, the last with: .+`, told[0].Reason)
		})
	}
}

// A worker that becomes ready and crashes at once, again and again, stands in the journal with the first end and restart alone. Its own list has them all.
func TestTheJournalTellsOfCrashesAtOnceOnce(t *testing.T) {
	t.Parallel()
	for name, on := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pack := oddPack(t, "")
			k := lab(t, func(c *node.Config) { on(t, c); quickly(c) }, pack)
			k.ready("odd.lab", 0, 0)
			h := api.New(api.Config{Backend: k.Backend})
			writeFiles(t, pack, files{"faint": ""})
			require.NoError(t, syscall.Kill(k.worker("odd.lab", 0).Pid, syscall.SIGKILL))
			k.until("it crashed again and again", func() bool { return k.worker("odd.lab", 0).Restarts >= 5 })
			k.remove("faint")
			k.ready("odd.lab", 0, 5)
			crashes := func() (n int) {
				for _, e := range answered[api.WorkerDetailView](t, h, "/api/v1/workers/test/odd.lab/0").History {
					if e.Reason == lifecycle.ErrorAgain {
						n++
					}
				}
				return n
			}
			k.until("all are stored", func() bool { return crashes() >= 4 })
			told := answered[api.JournalList](t, h, "/api/v1/journal?kinds=worker&subject=test/odd.lab/0").Entries
			require.Equal(t, []string{"restarted", "ended"}, []string{told[0].What, told[1].What})
			require.Len(t, told, 2, "%v", told)
			require.JSONEq(t, `1`, string(detailOf(t, told[1])["crashes"]))
		})
	}
}

func detailOf(t *testing.T, e messages.JournalEntry) (detail map[string]json.RawMessage) {
	require.NoError(t, json.Unmarshal(e.Detail, &detail))
	return detail
}
