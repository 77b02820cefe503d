package actors

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// looker answers looks at the store, and counts them.
type looker struct {
	e     messages.Execution
	looks int
}

func (l *looker) get(context.Context, messages.ExecutionID) (messages.Execution, error) {
	l.looks++
	return l.e, nil
}

// outcome is what is told of an execution that has completed.
func outcome(id messages.ExecutionID) *messages.Execution {
	return &messages.Execution{ID: id, Status: messages.Completed, Result: json.RawMessage(`1`), Labels: map[string]string{"a": "b"}}
}

// Who waits before the execution is stored is answered with the outcome that is told, wherever in time it comes, and never looks.
func TestASubmitterIsAnsweredWithWhatItIsTold(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]func(*Outcomes, messages.ExecutionID){
		"at once":               func(o *Outcomes, id messages.ExecutionID) { o.Publish(outcome(id)) },
		"after a word to look":  func(o *Outcomes, id messages.ExecutionID) { o.Look(id); o.Publish(outcome(id)) },
		"before a word to look": func(o *Outcomes, id messages.ExecutionID) { o.Publish(outcome(id)); o.Look(id) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, id, s := NewOutcomes(), messages.NewExecutionID(), &looker{}
			w := o.Expect(id)
			tell(o, id) // before the caller comes to wait
			e, err := w.Wait(t.Context(), s.get)
			require.NoError(t, err)
			require.Equal(t, *outcome(id), e)
			require.Zero(t, s.looks)
			w.Leave()
			w.Leave()
			require.Zero(t, o.count)
			require.Empty(t, o.waiting)
		})
	}
}

// A submitter whose outcome is not told finds it in the store, with the first look after five seconds.
func TestASubmitterThatIsToldNothingLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, id, began := NewOutcomes(), messages.NewExecutionID(), time.Now()
		s := &looker{e: *outcome(id)}
		w := o.Expect(id)
		defer w.Leave()
		e, err := w.Wait(t.Context(), s.get)
		require.NoError(t, err)
		require.Equal(t, messages.Completed, e.Status)
		require.Equal(t, lookFirst, time.Since(began))
		require.Equal(t, 1, s.looks)
	})
}

// A word to look has the submitter look at once; it goes on waiting where the outcome is not there.
func TestASubmitterLooksWhenItIsToldTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, id := NewOutcomes(), messages.NewExecutionID()
		s := &looker{e: messages.Execution{ID: id, Status: messages.Running}}
		w := o.Expect(id)
		defer w.Leave()
		o.Look(id)
		time.AfterFunc(time.Second, func() { o.Publish(outcome(id)) })
		e, err := w.Wait(t.Context(), s.get)
		require.NoError(t, err)
		require.Equal(t, messages.Completed, e.Status)
		require.Equal(t, 1, s.looks)
	})
}

// Who has read the execution before is answered with what is told and the parameters that it has read. Long ones are not kept while it
// waits: it reads again.
func TestAWaiterIsToldWithItsParameters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ size, looks int }{"short": {askedMax - 2, 1}, "long": {askedMax, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, id := NewOutcomes(), messages.NewExecutionID()
				parameters, err := json.Marshal(strings.Repeat("a", c.size))
				require.NoError(t, err)
				s := &looker{e: messages.Execution{ID: id, Status: messages.Running, Parameters: parameters}}
				time.AfterFunc(time.Second, func() { o.Publish(outcome(id)) })
				e, err := o.Wait(t.Context(), id, func(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
					e, err := s.get(ctx, id)
					s.e.Status = messages.Completed // for the next look, which is by the same goroutine
					return e, err
				})
				require.NoError(t, err)
				require.Equal(t, messages.Completed, e.Status)
				require.Equal(t, json.RawMessage(parameters), e.Parameters)
				require.Equal(t, c.looks, s.looks)
			})
		})
	}
}

// A look that the store does not answer takes nothing from what an earlier one has found.
func TestALookInVainKeepsTheParameters(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"short": askedMax - 2, "long": askedMax} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, id := NewOutcomes(), messages.NewExecutionID()
				parameters, err := json.Marshal(strings.Repeat("a", size))
				require.NoError(t, err)
				time.AfterFunc(lookFirst+time.Second, func() { o.Publish(outcome(id)) })
				looks := 0
				e, err := o.Wait(t.Context(), id, func(context.Context, messages.ExecutionID) (messages.Execution, error) {
					found := messages.Execution{ID: id, Status: messages.Running, Parameters: parameters}
					switch looks++; looks {
					case 1:
						return found, nil
					case 2:
						return messages.Execution{}, store.ErrUnavailable
					}
					found.Status = messages.Completed
					return found, nil
				})
				require.NoError(t, err)
				require.Equal(t, messages.Completed, e.Status)
				require.Equal(t, json.RawMessage(parameters), e.Parameters)
			})
		})
	}
}

// What one caller does to its answer, no other one sees.
func TestWaitersShareNothing(t *testing.T) {
	t.Parallel()
	o, id, s := NewOutcomes(), messages.NewExecutionID(), &looker{}
	one, two := o.Expect(id), o.Expect(id)
	told := outcome(id)
	told.Error = &messages.Error{Code: "x", Details: json.RawMessage(`{}`)}
	o.Publish(told)
	first, err := one.Wait(t.Context(), s.get)
	require.NoError(t, err)
	first.Result[0], first.Labels["a"], first.Error.Code, first.Error.Details[0] = '2', "c", "y", '['
	second, err := two.Wait(t.Context(), s.get)
	require.NoError(t, err)
	require.Equal(t, json.RawMessage(`1`), second.Result)
	require.Equal(t, "b", second.Labels["a"])
	require.Equal(t, messages.Error{Code: "x", Details: json.RawMessage(`{}`)}, *second.Error)
}

// A caller for whom there is no room hears so when it comes to wait, after its execution is stored.
func TestASubmitterForWhomThereIsNoRoom(t *testing.T) {
	t.Parallel()
	o := NewOutcomes()
	o.count = waitersMax
	w := o.Expect(messages.NewExecutionID())
	defer w.Leave()
	_, err := w.Wait(t.Context(), (&looker{}).get)
	require.ErrorIs(t, err, ErrTooManyWaiters)
	require.Equal(t, waitersMax, o.count)
}

// Who waits says so with each look in vain, and for how long; who submits says so once the execution is stored.
func TestAWaitIsAskedForAsLongAsItLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type asked struct {
			status messages.Status
			pause  time.Duration
		}
		var all []asked
		o, id := NewOutcomes(), messages.NewExecutionID()
		o.Ask = func(e *messages.Execution, pause time.Duration) {
			require.Equal(t, id, e.ID)
			all = append(all, asked{e.Status, pause})
		}
		w := o.Expect(id)
		defer w.Leave()
		w.Stored(&messages.Execution{ID: id, Status: messages.Requested})
		ctx, cancel := context.WithTimeout(t.Context(), 16*time.Second)
		defer cancel()
		looks := 0
		_, err := w.Wait(ctx, func(context.Context, messages.ExecutionID) (messages.Execution, error) {
			if looks++; looks == 2 {
				return messages.Execution{}, store.ErrUnavailable
			}
			return messages.Execution{ID: id, Status: messages.Running}, nil
		})
		require.NoError(t, err)
		require.Equal(t, 3, looks, "after 5 s, after 10 s more, and at the end")
		require.Equal(t, []asked{{messages.Requested, lookFirst}, {messages.Running, 2 * lookFirst}}, all)

		_, err = o.Wait(t.Context(), id, func(context.Context, messages.ExecutionID) (messages.Execution, error) { return *outcome(id), nil })
		require.NoError(t, err)
		require.Len(t, all, 2, "it is over")
		o.count = waitersMax
		refused := o.Expect(id)
		refused.Stored(&messages.Execution{ID: id, Status: messages.Requested})
		require.Len(t, all, 2, "nobody waits")
		o.count = 0
	})
}
