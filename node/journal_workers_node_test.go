package node_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
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
			require.Empty(t, read("kind=worker"), "that it started is not told")
			require.NoError(t, syscall.Kill(before.Pid, syscall.SIGKILL))
			k.ready("py.lab", 0, before.Generation)
			var told []messages.JournalEntry
			k.until("its end and the restart are told", func() bool {
				told = read("kind=worker&subject=" + string(before.ID))
				return len(told) == 2
			})
			require.Equal(t, []string{"restarted", "ended"}, []string{told[0].What, told[1].What}, "the newest first")
			require.Contains(t, told[1].Reason, "error: ")
			require.Contains(t, told[0].Reason, "init_complete: after ")
			require.Equal(t, told[:1], read("what=restarted"))
			require.Subset(t, read("limit=1000"), told)
			require.Empty(t, read("kind=worker&what=degraded"))
		})
	}
}
