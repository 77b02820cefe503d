package placement

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

const (
	benchWorkers  = 1_000
	benchSessions = 100_000
)

// BenchmarkPick is a whole placement over 1,000 workers and 100,000 sessions: pick, commit, and the release at its end.
func BenchmarkPick(b *testing.B) {
	requests := func(with bool, a messages.Affinity) []Request {
		all := make([]Request, benchSessions)
		for i := range all {
			all[i].Affinity = a
			if with {
				all[i].Session = fmt.Sprintf("session-%d", i*7919%benchSessions)
			}
		}
		return all
	}
	for _, c := range []struct {
		name     string
		requests []Request
	}{
		{"no session", requests(false, messages.AffinityNone)},
		{"strict", requests(true, messages.AffinityStrict)},
		{"hint", requests(true, messages.AffinityHint)},
	} {
		b.Run(c.name, func(b *testing.B) {
			now := start()
			table := New(Config{})
			fill(table, benchWorkers, benchSessions, now)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r := &c.requests[i%benchSessions]
				v := table.Pick(r, now)
				table.Commit(r, &v, now)
				table.Release(v.Worker)
				if r.Session != "" {
					table.Finished(r.Session, v.Epoch, now)
				}
			}
		})
	}
}

// Placing allocates nothing for a bound session or none.
func TestPickAllocatesNothing(t *testing.T) {
	now := start()
	table := New(Config{})
	fill(table, 100, 1_000, now)
	requests := []Request{
		{}, {Session: "session-1"}, {Session: "session-2", Affinity: messages.AffinityHint}, {Session: "unheard of"},
		{Avoid: worker(0).ID},
	}
	require.Zero(t, testing.AllocsPerRun(1_000, func() {
		for i := range requests {
			v := table.Pick(&requests[i], now)
			if v.Kind != Place {
				t.Error("not placed")
			}
			if v.Effect == Opened {
				continue // a new session is remembered, which is an allocation
			}
			table.Commit(&requests[i], &v, now)
			table.Undo(&requests[i], &v, now)
		}
	}))
}
