package placement

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// settled returns a settled table with workers in the slots 0, 1, 2, …, each changed as the given function says.
func settled(changes ...func(*Worker)) *Table {
	t := New(Config{})
	t.SetSettled(true)
	for slot, change := range changes {
		w := worker(slot)
		change(&w)
		t.Upsert(w)
	}
	return t
}

func free(*Worker)        {}
func full(w *Worker)      { w.Depth = w.Capacity }
func degraded(w *Worker)  { w.Tier = LastResort }
func unhealthy(w *Worker) { w.Tier = Missing }
func stale(w *Worker)     { w.Tier = Missing }
func cordoned(w *Worker)  { w.Tier = Closed }
func starting(w *Worker)  { w.Tier = Closed }
func broken(w *Worker)    { w.Tier = Absent }
func deep(w *Worker)      { w.Depth, w.Capacity = 1, 3 }

func TestPickWithoutSession(t *testing.T) {
	t.Parallel()
	wait := Request{WaitForWorker: true}
	for _, c := range []struct {
		name    string
		table   *Table
		request Request
		slot    int // where it is placed; -1: not
		waiting Waiting
		text    string
	}{
		{"an idle worker", settled(full, free), Request{}, 1, 0, ""},
		{"healthy before degraded, even deeper", settled(degraded, deep), Request{}, 1, 0, ""},
		{"degraded as a last resort", settled(full, degraded), Request{}, 1, 0, ""},
		{"shallow before deep", settled(deep, free), Request{}, 1, 0, ""},
		{"never unhealthy, stale, cordoned, starting", settled(unhealthy, stale, cordoned, starting), Request{}, -1, WorkersBusy, ""},
		{"all busy", settled(full, full), Request{}, -1, WorkersBusy, ""},
		{"starting counts as busy", settled(starting), Request{}, -1, WorkersBusy, ""},
		{"cordoned counts as busy", settled(cordoned), Request{}, -1, WorkersBusy, ""},
		{"no worker", settled(), Request{}, -1, 0, "no workers available"},
		{"stale counts as absent", settled(stale), Request{}, -1, 0, "No workers with fresh heartbeats available"},
		{"unhealthy counts as absent", settled(unhealthy), Request{}, -1, 0, "No workers with fresh heartbeats available"},
		{"broken counts as absent", settled(broken), Request{}, -1, 0, "No workers with fresh heartbeats available"},
		{"waits for a worker", settled(stale), wait, -1, NoWorkerYet, ""},
		{"waits until its deadline", settled(), Request{WaitForWorker: true, WorkerDeadline: start().Add(1)}, -1, NoWorkerYet, ""},
		{"past its deadline", settled(), Request{WaitForWorker: true, WorkerDeadline: start()}, -1, 0, "no workers available"},
		{"nothing fails before the table has settled", New(Config{}), Request{}, -1, Settling, ""},
		{"avoids the worker that failed it", settled(free, free), Request{Avoid: worker(0).ID}, 1, 0, ""},
		{"avoids it even for a degraded one", settled(free, degraded), Request{Avoid: worker(0).ID}, 1, 0, ""},
		{"takes it when no other is free", settled(free, full), Request{Avoid: worker(0).ID}, 0, 0, ""},
	} {
		got := c.table.Pick(&c.request, start())
		switch {
		case c.slot >= 0:
			require.Equal(t, Verdict{Kind: Place, Worker: key(c.slot), WorkerID: worker(c.slot).ID}, got, c.name)
		case c.waiting != NotWaiting:
			require.Equal(t, Verdict{Kind: Wait, Waiting: c.waiting}, got, c.name)
		default:
			require.Equal(t, Verdict{Kind: Fail, Code: messages.CodeNoWorkers, Text: c.text}, got, c.name)
		}
	}
}

func TestWorkGoesRound(t *testing.T) {
	t.Parallel()
	table := settled(free, free, free)
	var slots []messages.Slot
	for range 6 {
		v := table.Pick(&Request{}, start())
		table.Commit(&Request{}, &v, start())
		table.Release(v.Worker)
		slots = append(slots, v.Worker.Slot)
	}
	require.Equal(t, slots[:3], slots[3:], "the least recently used comes first")
	require.ElementsMatch(t, []messages.Slot{0, 1, 2}, slots[:3])
}

func TestWindow(t *testing.T) {
	t.Parallel()
	for p90, want := range map[time.Duration]int{
		0: 0, -1: 0, time.Second + 1: 0, time.Second: 1, 100 * time.Millisecond: 1, 51 * time.Millisecond: 1,
		50 * time.Millisecond: 2, 10 * time.Millisecond: 10, 5 * time.Millisecond: 20, 2 * time.Millisecond: 20, time.Nanosecond: 20,
	} {
		require.Equal(t, want, Window(p90, 50), "p90 %s", p90)
	}
	require.Equal(t, 9, Window(time.Millisecond, 10))
	require.Zero(t, Window(time.Millisecond, 0))
}

func TestWordsOfVerdicts(t *testing.T) {
	t.Parallel()
	require.Equal(t, "wait place fail", Wait.String()+" "+Place.String()+" "+Fail.String())
	require.Equal(t, "none hit miss opened lost expired unknown(9)", NoEffect.String()+" "+Hit.String()+" "+
		Miss.String()+" "+Opened.String()+" "+Lost.String()+" "+Expired.String()+" "+Effect(9).String())
	require.Equal(t, "workers_busy", WorkersBusy.String())
	require.Equal(t, Request{
		Session: "s", Affinity: messages.AffinityHint, Avoid: "w", WaitForWorker: true, WorkerDeadline: start(),
	}, RequestOf(&messages.Candidate{
		Session: "s", Affinity: messages.AffinityHint, Avoid: "w", WaitForWorker: true, WorkerDeadline: start(),
	}))
}
