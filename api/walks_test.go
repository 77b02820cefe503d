package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// An answer that took long serves all who ask the same, for twenty times as long as it took.
func TestAWalkServesAllWhoAskTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, n, took := newWalks[ErrorGroups](), 0, time.Second
		ask := func(query string) int {
			v, err := w.get(t.Context(), query, func(context.Context) (ErrorGroups, error) {
				n++
				time.Sleep(took)
				return ErrorGroups{Executions: n}, nil
			})
			require.NoError(t, err)
			return v.Executions
		}
		require.Equal(t, 1, ask("a"))
		require.Equal(t, 1, ask("a"))
		require.Equal(t, 2, ask("b"), "of another question")
		time.Sleep(18 * time.Second)
		require.Equal(t, 1, ask("a"))
		time.Sleep(2 * time.Second)
		require.Equal(t, 3, ask("a"))
		took = time.Minute
		require.Equal(t, 4, ask("c"))
		time.Sleep(walksAge)
		require.Equal(t, 5, ask("c"), "however long it took")
		took = time.Millisecond
		require.Equal(t, 6, ask("d"))
		require.Equal(t, 7, ask("d"), "what is cheap is always new")
		took = time.Second
		for i := range 3 * walksMax {
			ask(fmt.Sprint(i))
		}
		require.LessOrEqual(t, len(w.by), walksMax)
	})
}

func TestAWalkThatFailsServesNobody(t *testing.T) {
	t.Parallel()
	w := newWalks[ErrorGroups]()
	_, err := w.get(t.Context(), "a", func(context.Context) (ErrorGroups, error) {
		return ErrorGroups{}, errors.New("as asked")
	})
	require.ErrorContains(t, err, "as asked")
	v, err := w.get(t.Context(), "a", func(context.Context) (ErrorGroups, error) { return ErrorGroups{Executions: 1}, nil })
	require.NoError(t, err)
	require.Equal(t, 1, v.Executions)
	w.turn <- struct{}{} // somebody walks
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.get(gone, "a", nil)
	require.ErrorIs(t, err, context.Canceled)
}
