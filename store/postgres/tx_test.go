package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// A program's transaction with submissions may stay open for long. The nodes' work continues meanwhile, also in the
// same sessions, and the submissions take their turn after the commit.
func TestAnOpenTransactionHoldsNothingUp(t *testing.T) {
	t.Parallel()
	for _, affinity := range []messages.Affinity{messages.AffinityHint, messages.AffinityStrict, messages.AffinityStrictFail} {
		t.Run(string(affinity), func(t *testing.T) {
			t.Parallel()
			d := newBench(t)
			s := d.open(t, postgres.Config{})
			key := joined(t, s)
			ofSession := func(count int) []messages.Execution {
				e := noop(count)
				for i := range e {
					e[i].Session, e[i].Affinity = "s", affinity
				}
				return e
			}
			before := ofSession(1)
			_, err := s.Submit(t.Context(), before)
			require.NoError(t, err)
			tx, err := d.connect(t, "public").Begin(t.Context())
			require.NoError(t, err)
			within := append(ofSession(2), noop(1)...)
			within[1].RunAt = time.Now().Add(time.Hour)
			out, err := s.SubmitTx(t.Context(), tx, within)
			require.NoError(t, err)
			require.Len(t, out, 3)

			after := ofSession(1)
			_, err = s.Submit(t.Context(), after)
			require.NoError(t, err)
			apply := func(c store.Change) {
				t.Helper()
				results, err := s.Apply(t.Context(), []store.Change{c})
				require.NoError(t, err)
				require.Equal(t, store.Applied, results[0].Verdict)
			}
			run := func(id messages.ExecutionID, epoch int64) {
				t.Helper()
				apply(&store.Place{ID: id, Worker: key, WorkerID: "n/go/0", PlacedBy: key.Incarnation, ClaimWithin: time.Minute,
					Session: &store.SessionUse{Pool: "go", Session: "s", Epoch: epoch, Bind: epoch == 1, Hit: epoch > 1}})
				apply(&store.Claim{ID: id, Attempt: 1, Worker: key, Generation: 1})
				apply(&store.Finish{ID: id, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed}})
			}
			run(before[0].ID, 1)
			due := func() (ids []messages.ExecutionID) {
				page, err := s.Due(t.Context(), store.DueQuery{Pool: "go", Limit: 10, Heads: 10})
				require.NoError(t, err)
				for _, c := range page.Candidates {
					ids = append(ids, c.ID)
				}
				return ids
			}
			require.Equal(t, []messages.ExecutionID{after[0].ID}, due())
			require.NoError(t, tx.Commit(t.Context()))
			// The execution without a session is due at once. Of strict ones only the head is due, the first by insertion. Hints
			// are due together.
			require.Contains(t, due(), within[2].ID)
			require.Contains(t, due(), within[0].ID)
			require.NotContains(t, due(), within[1].ID, "its time has not come")
			e, err := s.Get(t.Context(), within[0].ID)
			require.NoError(t, err)
			require.Equal(t, e.RequestedAt, e.RunAt)
		})
	}
}

// Callers with idempotency keys share transactions too. Each gets the holder of its own key, and a key that an open
// transaction has taken delays only callers with the same key.
func TestGroupedKeys(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	withKey := func(key string) []messages.Execution {
		e := noop(1)
		e[0].IdempotencyKey, e[0].RequestHash = key, []byte("h")
		return e
	}
	taken := withKey("taken")
	_, err := s.Submit(t.Context(), taken)
	require.NoError(t, err)
	tx, err := d.connect(t, "public").Begin(t.Context())
	require.NoError(t, err)
	held := withKey("held")
	_, err = s.SubmitTx(t.Context(), tx, held)
	require.NoError(t, err)

	const callers = 64
	got, errs := make([]store.Submitted, callers), make([]error, callers)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			e := withKey(fmt.Sprint("twin", i/8))
			switch i % 8 {
			case 0:
				e = noop(1)
			case 1:
				e = withKey("taken")
			case 2:
				e = withKey("taken")
				e[0].RequestHash = []byte("another")
			case 3:
				e = withKey("held")
			}
			out, err := s.Submit(t.Context(), e)
			if errs[i] = err; err == nil {
				got[i] = out[0]
			}
		})
	}
	group.Wait()
	for i := range callers {
		switch i % 8 {
		case 0:
			require.NoError(t, errs[i])
			require.False(t, got[i].Existing)
		case 1:
			require.NoError(t, errs[i])
			require.True(t, got[i].Existing)
			require.Equal(t, taken[0].ID, got[i].Execution.ID)
		case 2:
			require.ErrorIs(t, errs[i], store.ErrConflict)
		case 3:
			require.ErrorIs(t, errs[i], store.ErrUnavailable, "until the transaction ends")
		default:
			require.NoError(t, errs[i])
			require.Equal(t, got[i/8*8+4].Execution.ID, got[i].Execution.ID, "one for all who ask for the same")
		}
	}
	require.NoError(t, tx.Commit(t.Context()))
	out, err := s.Submit(t.Context(), withKey("held"))
	require.NoError(t, err)
	require.True(t, out[0].Existing)
	require.Equal(t, held[0].ID, out[0].Execution.ID)
}
