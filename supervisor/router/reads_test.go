package router

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

func TestReadsKeepWhatIsSure(t *testing.T) {
	t.Parallel()
	run := func(n byte, session string) messages.Execution {
		return messages.Execution{ID: messages.ExecutionID{n}, Attempt: 1, Session: session, Status: messages.Running}
	}
	ended, runs := run(1, "ended"), run(2, "runs")
	read := func() ([]store.Session, []messages.Execution) {
		return []store.Session{
			{Session: "ended", Epoch: 2, FinishedEpoch: 1}, {Session: "runs", Epoch: 2, FinishedEpoch: 1},
			{Session: "idle", Epoch: 2, FinishedEpoch: 1}, {Session: "finished", Epoch: 2, FinishedEpoch: 2},
		}, []messages.Execution{ended, runs}
	}
	view := roster.New(roster.Config{})
	end := func(r *reads, pl messages.Placement) { r.note(view, roster.Ended{Placement: pl, Finished: true}) }
	var r reads
	end(&r, ended.Placement())
	r.begin()
	live, doubted := r.end(read())
	require.Empty(t, doubted, "nothing has finished while it was read")
	require.Len(t, live, 2)

	r.begin()
	r.begin()
	end(&r, ended.Placement())
	for range 2 {
		live, doubted = r.end(read())
		require.Equal(t, []string{"ended", "idle"}, doubted)
		require.Equal(t, []messages.Execution{runs}, live)
	}
	require.Equal(t, reads{}, r, "nothing is kept of a read that has ended")

	r.begin()
	for i := range endedMax + 1 {
		end(&r, messages.Placement{Execution: messages.ExecutionID{9, byte(i), byte(i >> 8), byte(i >> 16)}, Attempt: 1})
	}
	live, doubted = r.end(read())
	require.Equal(t, []string{"ended", "runs", "idle"}, doubted, "there may have been others")
	require.Len(t, live, 2)
}
