package roster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// shared is a roster with a worker that holds one queued and one running placement, and more whose writing and publishing
// are under way.
func shared(t *testing.T) *Roster {
	t.Helper()
	r := New(Config{})
	for _, text := range []string{
		"0s seen w0", "0s seen w1", "0s seen w2", "0s seen w3", "0s holding q#1 w0 by=9s", "0s holding r#1 w1 running",
		"0s loaded a b", "0s placed a#1 by=9s",
	} {
		perform(t, r, text)
	}
	return r
}

// A router that resigns leaves what is on the workers of other nodes there, once it is published, and takes back its own.
func TestResignedLeavesTheOthersWorkersTheirs(t *testing.T) {
	t.Parallel()
	r := shared(t)
	require.NotContains(t, kinds(r.Step(epoch0, Resigned{Own: messages.Incarnation{9}})), "TakeBack")
	require.False(t, r.Drained(), "a is being published and b is being written")
	require.False(t, r.Knows(placementOf("q#1")))
	require.Empty(t, r.Running(keyOf("w1")))
	require.Contains(t, kinds(r.Step(epoch0, Placed{ID: idOf("b"), Attempt: 1, OK: true})), "Publish")
	r.Step(epoch0, Published{Placements: []messages.Placement{placementOf("b#1")}, OK: true})
	require.Contains(t, kinds(r.Step(epoch0, Published{Placements: []messages.Placement{placementOf("a#1")}})), "TakeBack",
		"nobody else can know that it was not published")
	require.False(t, r.Drained())
	r.Step(epoch0, Released{Placement: placementOf("a#1")})
	require.True(t, r.Drained())

	r = shared(t)
	require.Contains(t, kinds(r.Step(epoch0, Resigned{Own: keyOf("w0").Incarnation})), "TakeBack")
	require.Equal(t, []messages.Placement{placementOf("r#1")}, r.Running(keyOf("w1")))
}

// A worker that another router has is busy: its session keeps it, and nothing that stands on it is ours to take back.
func TestWorkerLeft(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	for _, text := range []string{"0s seen w0", "0s session s on=w0 epoch=3", "0s holding q#1 w0 by=9s session=s epoch=3"} {
		perform(t, r, text)
	}
	require.Equal(t, int64(3), r.Epoch("s"))
	require.Zero(t, r.Epoch("unheard"))
	require.Empty(t, kinds(r.Step(epoch0, WorkerLeft{Worker: keyOf("w0")})))
	require.False(t, r.Knows(placementOf("q#1")))
	require.Empty(t, kinds(r.Step(epoch0, WorkerLeft{Worker: keyOf("w7")})), "one that was never seen")
	perform(t, r, "0s wake")
	require.NotContains(t, kinds(r.Step(epoch0, parseEvent(t, "loaded", []string{"a:s=s,mode=strict", "b"}))), "Place")
	require.Equal(t, WorkersStarting, r.Why(epoch0, idOf("a")))
	require.Equal(t, WorkersStarting, r.Why(epoch0, idOf("b")))
	for at := time.Duration(0); at < time.Minute; at += time.Second { // past every deadline
		for _, effect := range r.Step(epoch0.Add(at), Tick{}) {
			require.NotContains(t, []string{"Unbind", "TakeBack", "Fail"}, kinds([]Effect{effect})[0])
		}
	}
	require.Contains(t, kinds(r.Step(epoch0.Add(time.Minute), parseEvent(t, "seen", []string{"w0", "beat=60s"}))), "Place", "it is back")
}

func TestRemember(t *testing.T) {
	t.Parallel()
	before, after := New(Config{}), New(Config{})
	for range windowSamples {
		before.Step(epoch0, Ended{Placement: placementOf("a#1"), Took: time.Millisecond})
	}
	require.NotZero(t, before.P90())
	after.Remember(before)
	require.Equal(t, before.P90(), after.P90())
	require.Equal(t, before.window, after.window)
	require.Zero(t, after.Waiting())
}
