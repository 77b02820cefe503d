package faulty_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
	"github.com/troupe-run/troupe/store/storetest/faulty"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) store.Store {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "store.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func execution() messages.Execution {
	return messages.Execution{
		ID: messages.NewExecutionID(), Action: "core.echo", Version: "1", Pool: "p", Priority: messages.PriorityNormal,
		Timeout: time.Minute,
	}
}

func TestRefusedDoesNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	f := faulty.New(s, faulty.Config{Refused: 100})
	e := execution()
	_, err := f.Submit(t.Context(), []messages.Execution{e})
	require.ErrorIs(t, err, store.ErrUnavailable)
	_, err = s.Get(t.Context(), e.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = f.Get(t.Context(), e.ID)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Equal(t, faulty.Counts{Refused: 2}, f.Counts())
}

func TestLostIsDone(t *testing.T) {
	t.Parallel()
	s := open(t)
	f := faulty.New(s, faulty.Config{Lost: 100})
	e := execution()
	out, err := f.Submit(t.Context(), []messages.Execution{e})
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Empty(t, out)
	_, err = s.Get(t.Context(), e.ID)
	require.NoError(t, err)

	results, err := f.Apply(t.Context(), []store.Change{&store.Cancel{ID: e.ID}})
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Empty(t, results)
	got, err := f.Get(t.Context(), e.ID)
	require.NoError(t, err, "what is only read is not lost")
	require.Equal(t, messages.Cancelled, got.Status)
	require.Equal(t, faulty.Counts{Lost: 2}, f.Counts())
}

func TestTwiceTakesEffectOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	f := faulty.New(s, faulty.Config{Twice: 100, Delayed: 50})
	e := execution()
	out, err := f.Submit(t.Context(), []messages.Execution{e})
	require.NoError(t, err)
	require.False(t, out[0].Existing)
	results, err := f.Apply(t.Context(), []store.Change{&store.Cancel{ID: e.ID}})
	require.NoError(t, err)
	require.Equal(t, store.Applied, results[0].Verdict)
	require.Equal(t, 2, f.Counts().Twice)
}

func TestBatchThatCannotBeRepeatedIsNot(t *testing.T) {
	t.Parallel()
	s := open(t)
	e := execution()
	_, err := s.Submit(t.Context(), []messages.Execution{e})
	require.NoError(t, err)
	f := faulty.New(s, faulty.Config{Lost: 100, Twice: 100})
	results, err := f.Apply(t.Context(), []store.Change{&store.Cancel{ID: e.ID}, &store.Cancel{ID: e.ID}})
	require.NoError(t, err)
	require.Equal(t, store.Applied, results[0].Verdict)
	require.Equal(t, store.Already, results[1].Verdict)
}

func TestSameSeedSameFaults(t *testing.T) {
	t.Parallel()
	history := func(seed uint64) (failed [50]bool) {
		f := faulty.New(open(t), faulty.Config{Seed: seed})
		for i := range failed {
			_, err := f.Submit(t.Context(), []messages.Execution{execution()})
			failed[i] = err != nil
		}
		return failed
	}
	require.Equal(t, history(1), history(1))
	require.NotEqual(t, history(1), history(2))
}

func TestRepeatGivesUp(t *testing.T) {
	t.Parallel()
	r := faulty.Repeat(faulty.New(open(t), faulty.Config{Refused: 100}))
	_, err := r.Now(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Now(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// repeatsFinish is a broken store: it does not recognize a repeated Finish and counts it again.
type repeatsFinish struct{ store.Store }

func (s repeatsFinish) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	out, err := s.Store.Apply(ctx, changes)
	for i, r := range out {
		if _, finish := changes[i].(*store.Finish); finish && r.Verdict == store.Already {
			out[i].Verdict = store.Applied
		}
	}
	return out, err
}

// repeatsSubmission is a broken store: it stores a repeated submission as a new one.
type repeatsSubmission struct{ store.Store }

func (s repeatsSubmission) SubmitPlaced(ctx context.Context, executions []messages.Execution, places []*store.Place) ([]store.Submitted, error) {
	fresh := append([]messages.Execution(nil), executions...)
	for i := range fresh {
		if _, err := s.Get(ctx, fresh[i].ID); err == nil {
			fresh[i].ID = messages.NewExecutionID()
		}
	}
	return s.Store.SubmitPlaced(ctx, fresh, places)
}

// TestBrokenStoresAreFoundOut takes an execution to its end through a faulty network, on a correct store and on broken
// ones.
func TestBrokenStoresAreFoundOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broken func(store.Store) store.Store
		want   error
	}{
		"good":                 {func(s store.Store) store.Store { return s }, nil},
		"finish counted twice": {func(s store.Store) store.Store { return repeatsFinish{s} }, faulty.ErrTwice},
		"submitted twice":      {func(s store.Store) store.Store { return repeatsSubmission{s} }, faulty.ErrTwice},
	} {
		for fault, config := range map[string]faulty.Config{"lost": {Seed: 1, Lost: 50}, "twice": {Twice: 100}} {
			t.Run(name+", "+fault, func(t *testing.T) {
				t.Parallel()
				s := faulty.Repeat(faulty.New(c.broken(open(t)), config))
				var err error
				for range 10 { // half of the replies are lost
					if err = lead(t, s); err != nil {
						break
					}
				}
				require.ErrorIs(t, err, c.want)
			})
		}
	}
}

// lead submits an execution and takes it to its outcome. It returns the error of a call.
func lead(t *testing.T, s store.Store) error {
	inc := messages.NewIncarnation()
	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: inc, Name: "n", Version: "1"}, time.Hour))
	e, key := execution(), messages.WorkerKey{Incarnation: inc, Pool: "p"}
	if _, err := s.Submit(t.Context(), []messages.Execution{e}); err != nil {
		return err
	}
	for _, c := range []store.Change{
		&store.Place{ID: e.ID, Worker: key, WorkerID: "n/p/0", PlacedBy: inc, ClaimWithin: time.Minute},
		&store.Claim{ID: e.ID, Attempt: 1, Worker: key, Generation: 1},
		&store.Finish{ID: e.ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed}},
	} {
		results, err := s.Apply(t.Context(), []store.Change{c})
		if err != nil {
			return err
		}
		require.Equal(t, store.Applied, results[0].Verdict, c.Name())
	}
	return nil
}

// The planted fault writes the outcome of an old attempt to a newer one.
func TestAttemptlessTakesOldOutcomes(t *testing.T) {
	t.Parallel()
	s := open(t)
	e, inc := execution(), messages.NewIncarnation()
	_, err := s.Submit(t.Context(), []messages.Execution{e})
	require.NoError(t, err)
	worker := messages.WorkerKey{Incarnation: inc, Pool: "p"}
	for attempt := range messages.Attempt(2) {
		results, err := s.Apply(t.Context(), []store.Change{
			&store.Place{ID: e.ID, Attempt: attempt, Worker: worker, WorkerID: "n/p/0", PlacedBy: inc, ClaimWithin: time.Minute},
			&store.Claim{ID: e.ID, Attempt: attempt + 1, Worker: worker, Generation: 1},
			&store.Rescue{ID: e.ID, Attempt: attempt + 1 - 2*attempt}, // only the first run is rescued
		})
		require.NoError(t, err)
		require.Equal(t, store.Applied, results[1].Verdict)
	}
	old := &store.Finish{ID: e.ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed}}
	results, err := s.Apply(t.Context(), []store.Change{old})
	require.NoError(t, err)
	require.Equal(t, store.Stale, results[0].Verdict)
	results, err = faulty.Attemptless(s).Apply(t.Context(), []store.Change{old})
	require.NoError(t, err)
	require.Equal(t, store.Applied, results[0].Verdict)
	require.Equal(t, messages.Attempt(1), old.Attempt, "the caller's change stays as it is")
}
