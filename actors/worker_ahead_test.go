package actors

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// What comes to a worker whose run takes long is not claimed, or it would be claimed and given back again and again.
func TestNothingIsClaimedBehindALongRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{}
		s := play(t, a, nil)
		s.ends(s.runs(nil), ok()) // it is short
		long := s.runs(nil)
		time.Sleep(2 * aheadWait)
		next := s.rows.add(idempotent)
		s.send(&Execute{Placements: []messages.Placement{next}, Ahead: 8})
		require.Equal(t, messages.Scheduled, s.rows.get(next).Status, "the claim sweep may take it back")
		s.ends(long, ok())
		require.Equal(t, messages.Running, s.rows.get(next).Status)
		s.ends(next, ok())
		require.Len(t, a.ran(), 3)
		s.is(lifecycle.Ready)
	})
}

// steadyRunner is a runner whose runs each take a time.
type steadyRunner struct {
	act
	each  time.Duration
	spans [][2]time.Time
}

func (r *steadyRunner) Run(run *Run) {
	from := time.Now()
	time.AfterFunc(r.each, func() {
		r.change(func() { r.spans = append(r.spans, [2]time.Time{from, time.Now()}) })
		r.post(&ended{placement: run.Placement(), outcome: ok()})
	})
}

// A worker that has a backlog idles for no more than a twentieth of its time: what it needs next is placed while it runs, and claimed
// shortly before the run ends, where it may be. What may not be repeated is claimed no earlier than with the run's end, which
// costs a transaction each time.
func TestWorkersStayBusy(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		each, commit time.Duration
		hand         time.Duration // from a written end until the next is at the worker
		window       int           // what is placed ahead of the run, as rules/placement decides
		ahead        int
		least        float64
	}{
		"10 ms":                      {10 * ms, 4 * ms, 8 * ms, 4, 8, 0.95},
		"100 ms":                     {100 * ms, 4 * ms, 8 * ms, 1, 8, 0.95},
		"1 s":                        {1000 * ms, 4 * ms, 8 * ms, 0, 1, 0.95},
		"10 ms, with a slow store":   {10 * ms, 6 * ms, ms, 4, 8, 0.95},
		"100 ms, with a slow store":  {100 * ms, 15 * ms, 30 * ms, 1, 8, 0.95},
		"1 s, with a slow store":     {1000 * ms, 10 * ms, 20 * ms, 0, 1, 0.95},
		"100 ms, not to be repeated": {100 * ms, 4 * ms, 8 * ms, 1, 1, 0.95},
		"10 ms, not to be repeated":  {10 * ms, 4 * ms, 8 * ms, 4, 1, 0.70},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				runner := &steadyRunner{act: act{traits: lives}, each: c.each}
				s := playWith(t, &runner.act, runner, nil)
				s.rows.commit = c.commit
				count := min(200, int(20*time.Second/c.each))
				given := 0
				for given < count { // the router: it hears of an end, places and publishes
					for ; given < min(count, s.rows.named("finish")+1+c.window); given++ {
						p := s.rows.add(idempotent)
						time.AfterFunc(c.hand, func() { s.system.Send(s.worker, &Execute{Placements: []messages.Placement{p}, Ahead: c.ahead}) })
					}
					time.Sleep(ms)
				}
				time.Sleep(2 * time.Second)
				var spans [][2]time.Time
				runner.change(func() { spans = slices.Clone(runner.spans) })
				require.Len(t, spans, count)
				var ran time.Duration
				for _, span := range spans {
					ran += span[1].Sub(span[0])
				}
				share := ran.Seconds() / spans[count-1][1].Sub(spans[0][0]).Seconds()
				require.GreaterOrEqual(t, share, c.least)
				require.LessOrEqual(t, share, 1.0, "one run at a time")
				require.Zero(t, s.rows.named("rescue"), "nothing is claimed and given back")
			})
		})
	}
}
