package timeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/rules/timeline"
)

func TestWhatWasBeforeAnExecution(t *testing.T) {
	t.Parallel()
	of := messages.Execution{ID: id, Seq: 10, Priority: 5, RequestedAt: sec(0), RunAt: sec(0), Session: "s", Affinity: messages.AffinityStrict}
	type change = func(e *messages.Execution)
	placed := func(at float64) change {
		return func(e *messages.Execution) { e.Attempt, e.FirstPlacedAt, e.ScheduledAt = 1, sec(at), sec(at) }
	}
	started := func(at float64) change { return func(e *messages.Execution) { e.StartedAt = sec(at) } }
	ended := func(at float64) change { return func(e *messages.Execution) { e.FinishedAt = sec(at) } }
	due := func(at float64) change { return func(e *messages.Execution) { e.RunAt = sec(at) } }
	again := func(e *messages.Execution) { e.Attempt = 2 }
	back := func(e *messages.Execution) { e.TakeBacks = 1 }
	later := func(e *messages.Execution) { e.Seq = 11 }
	first := func(e *messages.Execution) { e.Priority = 6 }
	const in, out, unsure = "before it", "not", "unsure"
	for name, c := range map[string]struct {
		changes []change
		pool    string
		session string // of one of the same session
	}{
		"waits still":                   {nil, in, in},
		"itself":                        {[]change{func(e *messages.Execution) { e.ID = id }}, out, out},
		"inserted later":                {[]change{later}, out, out},
		"later, of a higher priority":   {[]change{later, first}, in, out},
		"of a lower priority":           {[]change{func(e *messages.Execution) { e.Priority = 4 }}, out, in},
		"requested after that":          {[]change{func(e *messages.Execution) { e.RequestedAt = sec(6) }}, out, out},
		"requested then":                {[]change{func(e *messages.Execution) { e.RequestedAt = sec(5) }}, in, in},
		"ended before":                  {[]change{placed(1), started(2), ended(4)}, out, out},
		"ended then":                    {[]change{ended(5)}, out, out},
		"cancelled later":               {[]change{ended(6)}, in, in},
		"ran":                           {[]change{placed(1), started(2), ended(9)}, out, in},
		"runs since then":               {[]change{placed(1), started(5)}, out, in},
		"on a worker's queue":           {[]change{placed(1), started(6), ended(9)}, in, in},
		"placed later":                  {[]change{placed(6), started(7)}, in, in},
		"not due":                       {[]change{due(8), placed(9), started(9)}, out, out},
		"due then":                      {[]change{due(5), placed(9)}, in, in},
		"placed again":                  {[]change{placed(1), again, started(7)}, unsure, in},
		"placed again, and ran then":    {[]change{placed(1), again, started(4)}, out, in},
		"placed again later":            {[]change{placed(6), again, started(7)}, in, in},
		"taken back":                    {[]change{placed(1), back, due(8)}, unsure, in},
		"taken back later":              {[]change{placed(6), back, due(8)}, unsure, unsure},
		"taken back later, due as ever": {[]change{placed(6), back, again}, in, in},
	} {
		e := messages.Execution{ID: one, Seq: 9, Priority: 5, RequestedAt: sec(0), RunAt: sec(0)}
		for _, change := range c.changes {
			change(&e)
		}
		verdict := func(which string) string {
			l := timeline.Line{Of: &of, At: sec(5), Which: which}
			l.Look(&e)
			require.False(t, l.Unsure && l.Ahead > 0, name)
			switch {
			case l.Unsure:
				return unsure
			case l.Ahead == 1:
				return in
			}
			return out
		}
		require.Equal(t, c.pool, verdict(roster.PoolLine), name)
		e.Session, e.Affinity = "s", messages.AffinityHint
		require.Equal(t, c.pool, verdict(roster.PoolLine), "%s, with a hint", name)
		require.Equal(t, out, verdict(roster.SessionLine), "%s: a hint does not hold its session", name)
		e.Affinity = messages.AffinityStrict
		require.Equal(t, c.session, verdict(roster.SessionLine), "%s, in its session", name)
		if want := c.pool; want == in {
			require.Equal(t, unsure, verdict(roster.PoolLine), "%s, of another session", name)
		}
	}
}

func TestWhichWaitStandsInLine(t *testing.T) {
	t.Parallel()
	for cause, want := range map[string]string{
		"": "", timeline.NotDue: "", timeline.BackedOff: "", timeline.OnQueue: "", timeline.LostRun: "", timeline.SessionWorker: "",
		timeline.SessionOrder: roster.SessionLine, timeline.Unknown: roster.PoolLine, timeline.BeingPlaced: roster.PoolLine,
		roster.WorkersBusy.String(): roster.PoolLine, roster.StoreAway.String(): roster.PoolLine,
	} {
		require.Equal(t, want, timeline.LineOf(cause), cause)
	}
}
