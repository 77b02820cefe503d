package postgres_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// applyAll makes changes in one call. Each must take effect.
func applyAll(b *testing.B, s store.Store, changes []store.Change) {
	out, err := s.Apply(b.Context(), changes)
	require.NoError(b, err)
	for i := range out {
		require.Equal(b, store.Applied, out[i].Verdict, "%s: %v", changes[i].Name(), out[i].Err)
	}
}

// BenchmarkSessions places, claims and finishes executions of sessions, one of each session in a group. One operation
// is one execution.
func BenchmarkSessions(b *testing.B) {
	for _, group := range []int{1, 20, 128} {
		b.Run(fmt.Sprint("group=", group), func(b *testing.B) {
			d := newBench(b)
			s := d.open(b, postgres.Config{})
			worker := joined(b, s)
			var all []messages.Execution
			for done := 0; done < b.N; done += 1000 {
				e := noop(min(1000, b.N-done))
				for i := range e {
					e[i].Session, e[i].Affinity = fmt.Sprint("s", (done+i)%1024), messages.AffinityStrict
				}
				_, err := s.Submit(b.Context(), e)
				require.NoError(b, err)
				all = append(all, e...)
			}
			b.ResetTimer()
			before := cpu()
			for done := 0; done < b.N; done += group {
				var place, claim, finish []store.Change
				for i := done; i < min(done+group, b.N); i++ {
					e := &all[i]
					u := &store.SessionUse{Pool: e.Pool, Session: e.Session, Epoch: 1, Hit: true, Bind: i < 1024}
					place = append(place, &store.Place{ID: e.ID, Worker: worker, WorkerID: "n/go/0", PlacedBy: worker.Incarnation, ClaimWithin: time.Minute, Session: u})
					claim = append(claim, &store.Claim{ID: e.ID, Attempt: 1, Worker: worker, Generation: 1})
					finish = append(finish, &store.Finish{ID: e.ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`{}`)}})
				}
				applyAll(b, s, place)
				applyAll(b, s, claim)
				applyAll(b, s, finish)
			}
			report(b, d, before)
		})
	}
}

// BenchmarkDecided makes changes that store.Decide decides: an execution is taken back and placed again, rescued,
// cancelled while it runs, and ended. One operation is one execution.
func BenchmarkDecided(b *testing.B) {
	for _, group := range []int{1, 20, 128} {
		b.Run(fmt.Sprint("group=", group), func(b *testing.B) {
			d := newBench(b)
			s := d.open(b, postgres.Config{})
			worker := joined(b, s)
			var all []messages.Execution
			for done := 0; done < b.N; done += 1000 {
				e := noop(min(1000, b.N-done))
				_, err := s.Submit(b.Context(), e)
				require.NoError(b, err)
				all = append(all, e...)
			}
			place := func(e *messages.Execution, attempt messages.Attempt) store.Change {
				return &store.Place{ID: e.ID, Attempt: attempt, Worker: worker, WorkerID: "n/go/0", PlacedBy: worker.Incarnation, ClaimWithin: time.Minute}
			}
			claim := func(e *messages.Execution, attempt messages.Attempt) store.Change {
				return &store.Claim{ID: e.ID, Attempt: attempt, Worker: worker, Generation: 1}
			}
			steps := []func(e *messages.Execution) store.Change{
				func(e *messages.Execution) store.Change { return place(e, 0) },
				func(e *messages.Execution) store.Change {
					return &store.TakeBack{ID: e.ID, Attempt: 1, Reason: "claim_by"}
				},
				func(e *messages.Execution) store.Change { return place(e, 1) },
				func(e *messages.Execution) store.Change { return claim(e, 2) },
				func(e *messages.Execution) store.Change {
					return &store.Rescue{ID: e.ID, Attempt: 2, Reason: "node gone"}
				},
				func(e *messages.Execution) store.Change { return place(e, 2) },
				func(e *messages.Execution) store.Change { return claim(e, 3) },
				func(e *messages.Execution) store.Change { return &store.Cancel{ID: e.ID, By: "me"} },
				func(e *messages.Execution) store.Change {
					return &store.Finish{ID: e.ID, Attempt: 3, Outcome: messages.Outcome{Status: messages.Completed}}
				},
			}
			b.ResetTimer()
			before := cpu()
			for done := 0; done < b.N; done += group {
				for _, step := range steps {
					var changes []store.Change
					for i := done; i < min(done+group, b.N); i++ {
						changes = append(changes, step(&all[i]))
					}
					applyAll(b, s, changes)
				}
			}
			report(b, d, before)
		})
	}
}
