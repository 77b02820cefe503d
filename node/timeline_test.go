package node_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/rules/timeline"
)

// explained waits until nothing of the wait is unknown: what has just happened is recorded within some seconds.
func (k *kit) explained(id messages.ExecutionID) (lanes timeline.Timeline) {
	k.t.Helper()
	k.until("the whole wait is explained", func() bool {
		var err error
		lanes, err = k.Timeline(k.t.Context(), id, timeline.Part{})
		require.NoError(k.t, err)
		return len(lanes.Gaps) == 0
	})
	return lanes
}

func causes(waits []timeline.Wait) (list []string) {
	for _, w := range waits {
		list = append(list, w.Cause)
	}
	return list
}

// covers checks that the intervals cover the time from the request to the start.
func covers(t *testing.T, e *messages.Execution, waits []timeline.Wait) {
	t.Helper()
	at := e.RequestedAt
	for _, w := range waits {
		require.True(t, w.From.Equal(at), "%s begins at %s, want %s", w.Cause, w.From, at)
		at = w.To
	}
	require.True(t, at.Equal(e.StartedAt), "they end at %s, want %s", at, e.StartedAt)
}

// After an execution has run, its timeline still says what it waited for.
func TestATimelineSaysWhatAnExecutionWaitedFor(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, handle(map[string]messages.Handler{"noop": noop, "block": block.run}), goPack(t, map[string]string{"noop": "", "block": "affinity: strict\n"}))
	k.recorded("pool go condition ready ")
	require.NoError(t, k.CordonPool(t.Context(), "go", true))
	k.recorded("pool go condition workers_cordoned ")
	waited := k.submit("t.noop", nil)
	k.heldBack(waited)
	require.NoError(t, k.CordonPool(t.Context(), "go", false))
	e := k.await(waited)
	lanes := k.explained(waited)
	covers(t, &e, lanes.Wait)
	require.Equal(t, "workers_cordoned", lanes.Wait[0].Cause)
	require.Equal(t, "pool go: workers cordoned", lanes.Wait[0].Evidence)
	require.Len(t, lanes.Attempts, 1)
	require.Equal(t, "completed", lanes.Attempts[0].Ended)
	require.Len(t, lanes.Runs, 1)
	require.NotEmpty(t, lanes.Worker)

	inSession := func(r *submit.Request) { r.Session = "s" }
	first := k.submit("t.block", nil, inSession)
	block.next(t)
	second := k.submit("t.block", nil, inSession)
	k.until("it waits behind the first", func() bool {
		why, err := k.Why(t.Context(), second)
		require.NoError(t, err)
		return why.Reason == "session_order"
	})
	later := k.submit("t.block", nil, inSession, func(r *submit.Request) { r.RunAt = time.Now().Add(time.Hour) })
	why, err := k.Why(t.Context(), later)
	require.NoError(t, err)
	require.Equal(t, "not_due", why.Reason)
	lanes = k.explained(later)
	require.Equal(t, why.Reason, lanes.Wait[len(lanes.Wait)-1].Cause, "both say the same of what is not due and behind another of its session")
	close(block.open)
	e = k.await(second)
	lanes = k.explained(second)
	covers(t, &e, lanes.Wait)
	require.Contains(t, causes(lanes.Wait), timeline.SessionOrder)
	require.Equal(t, first, lanes.Wait[0].Link)
	require.NotEmpty(t, lanes.Session)
}

// A run that was lost is part of the wait for the next one, with its worker and its times.
func TestATimelineShowsALostRun(t *testing.T) {
	t.Parallel()
	ran := filepath.Join(t.TempDir(), "ran")
	k := lab(t, nil, shellPack(t, map[string]string{"once": "[ -e " + ran + " ] && exit 0\ntouch " + ran + "\nexec sleep 600"}, "idempotent: true\n"))
	k.recorded("pool shell condition ready ")
	id := k.submit("sh.once", nil)
	k.until("it runs", func() bool { _, err := os.Stat(ran); return err == nil })
	lost := k.becomes(id, messages.Running)
	require.NoError(t, k.Backend.KillWorker(t.Context(), lost.WorkerID, "ops"))
	e := k.await(id)
	require.Equal(t, messages.Completed, e.Status)
	lanes := k.explained(id)
	covers(t, &e, lanes.Wait)
	require.Contains(t, causes(lanes.Wait), timeline.LostRun)
	require.Len(t, lanes.Runs, 2)
	require.Equal(t, "lost", lanes.Runs[0].Outcome)
	require.True(t, lanes.Runs[0].From.Equal(lost.StartedAt))
	gone := lanes.Attempts[0]
	require.Equal(t, []any{lost.WorkerID, lost.Generation, "rescued", "ops"}, []any{gone.Worker, gone.Generation, gone.Ended, gone.By})
	require.True(t, gone.ScheduledAt.Equal(lost.ScheduledAt))
}
