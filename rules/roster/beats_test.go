package roster

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
)

// Each worker's own interval decides when its heartbeat is too old; the router's decides where none is known.
func TestOwnIntervalDecidesAboutStaleness(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config Config
		every  time.Duration
		limit  time.Duration
	}{
		"unknown":                  {Config{StaleAfter: 3 * time.Second}, 0, 3 * time.Second},
		"longer than the router's": {Config{StaleAfter: 3 * time.Second}, 10 * time.Second, 30 * time.Second},
		"shorter":                  {Config{}, time.Second, 3 * time.Second},
		"by the multiplier":        {Config{StaleTimes: 1.5}, 2 * time.Second, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r, key := New(c.config), messages.WorkerKey{Pool: "p"}
			stands := func() (string, health.Grade) {
				w := r.Workers()[0]
				return w.Standing, w.Grade
			}
			r.Step(epoch0, WorkerSeen{Worker: key, ID: "n/p/0", Generation: 1, Accepts: true, Active: true, Grade: health.Healthy, BeatAt: epoch0, BeatEvery: c.every})
			r.Step(epoch0.Add(c.limit), Tick{})
			standing, grade := stands()
			require.Equal(t, "working", standing)
			require.Equal(t, health.Healthy, grade)
			r.Step(epoch0.Add(c.limit+1), Tick{})
			standing, grade = stands()
			require.Equal(t, "stale", standing)
			require.Equal(t, health.Unhealthy, grade)
			require.Zero(t, r.free)
		})
	}
}

// An interval that becomes shorter counts at once.
func TestAShorterIntervalCountsAtOnce(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	seen := WorkerSeen{Worker: messages.WorkerKey{Pool: "p"}, ID: "n/p/0", Generation: 1, Accepts: true, Active: true, Grade: health.Healthy, BeatAt: epoch0}
	r.Step(epoch0, seen)
	seen.BeatEvery = time.Second
	r.Step(epoch0, seen)
	r.Step(epoch0.Add(4*time.Second), Tick{})
	require.Equal(t, "stale", r.Workers()[0].Standing)
	require.Zero(t, r.free)
}

// A worker of which nobody has said that it is well gets nothing.
func TestAWorkerWithoutAGradeIsUnhealthy(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	r.Step(epoch0, WorkerSeen{Worker: slotKey(0), ID: "n/p/w0", Generation: 1, Accepts: true, Active: true, BeatAt: epoch0})
	require.Equal(t, health.Unhealthy, r.Workers()[0].Grade)
	require.Zero(t, r.free)
}

// After the store was away a session's worker without a fresh heartbeat is not given up until the router has led for
// SteadyAfter again, though another worker is free.
func TestAnOutageOfTheStoreUnsettles(t *testing.T) {
	t.Parallel()
	r := New(Config{SteadyAfter: 10 * time.Second, StaleAfter: 3 * time.Second})
	placed := func(at string, lines ...string) (n int) {
		for _, text := range append(lines, "tick") {
			for _, effect := range perform(t, r, at+" "+text) {
				if strings.HasPrefix(effect, "place ") {
					n++
				}
			}
		}
		return n
	}
	placed("0s", "seen w0", "seen w1", "session x on=w0 epoch=1 started=1 finished=1 touched=0s")
	placed("11s", "beats w1 at=11s")
	require.True(t, r.Snapshot().Steady)
	r.Step(epoch0.Add(12*time.Second), Store{Away: true})
	r.Step(epoch0.Add(13*time.Second), Store{})
	require.Zero(t, placed("13s", "beats w1 at=13s", "wake", "loaded a:s=x"))
	require.Zero(t, placed("22s", "beats w1 at=22s"))
	require.Equal(t, 1, placed("23s", "beats w1 at=23s"))
}

// What the store says of a session is older than a binding that a single placement is bringing to it.
func TestAnOldWordOfASessionIsPassedOver(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	for _, text := range []string{"0s seen w0", "0s session x on=w9 epoch=1 started=1 finished=1", "0s loaded a:s=x"} {
		perform(t, r, text)
	}
	r.Step(epoch0, Doubted{Session: "x"})
	perform(t, r, "0s session x on=w9 epoch=1 started=1 finished=1")
	s, known := r.table.Session("x")
	require.True(t, known)
	require.EqualValues(t, 2, s.Epoch)
	require.Equal(t, slotKey(0), s.Worker)
}
