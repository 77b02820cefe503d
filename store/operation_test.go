package store_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// TestOperationItems checks that an item is either an execution or a dead letter.
func TestOperationItems(t *testing.T) {
	t.Parallel()
	id := messages.NewExecutionID()
	require.Equal(t, id, store.ExecutionItem(id).Execution())
	require.Zero(t, store.ExecutionItem(id).Letter())
	for _, number := range []int64{1, 70_000, math.MaxInt64} {
		i := store.LetterItem(number)
		require.Equal(t, number, i.Letter())
		require.True(t, i.Execution().IsZero())
		require.Equal(t, []store.OperationItem{i, store.ExecutionItem(id)}, store.SplitIDs(store.JoinIDs([]store.OperationItem{i, store.ExecutionItem(id)})))
	}
	require.True(t, store.OperationItem{}.Execution().IsZero())
	require.Zero(t, store.OperationItem{}.Letter())
}
