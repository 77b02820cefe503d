package operate

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// Of more executions than are looked at, the last ones are, and the answer says from when on. What retention has deleted may have been before it.
func TestAPlaceInLineIsBounded(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	many := make([]messages.Execution, lineWalk+2*listPage)
	for i := range many {
		many[i] = messages.Execution{ID: messages.NewExecutionID(), Action: "core.echo", Pool: "shell", Parameters: json.RawMessage(`{}`), Timeout: time.Minute}
	}
	var stored []messages.Execution
	for _, some := range append([][]messages.Execution{many[:100]}, slices.Collect(slices.Chunk(many[100:], 5000))...) {
		got, err := c.store.Submit(t.Context(), some)
		require.NoError(t, err)
		for i := range got {
			stored = append(stored, got[i].Execution)
		}
	}
	of := stored[len(stored)-1]
	v, err := a.LineAt(t.Context(), of.ID, of.RequestedAt)
	require.NoError(t, err)
	require.True(t, v.Line.AtLeast)
	require.Less(t, v.Line.Ahead, len(stored)-1)
	require.False(t, v.Since.IsZero())
	require.False(t, v.Since.Before(of.RequestedAt.Add(-time.Hour)))

	few := stored[99]
	v, err = a.LineAt(t.Context(), few.ID, few.RequestedAt)
	require.NoError(t, err)
	require.Equal(t, 99, v.Line.Ahead)
	require.Zero(t, v.Since)
	require.False(t, v.Line.AtLeast)
	a.cfg.Retains = time.Nanosecond
	v, err = (&executions{cfg: a.cfg}).LineAt(t.Context(), few.ID, few.RequestedAt)
	require.NoError(t, err)
	require.True(t, v.Line.AtLeast, "some may be deleted")
}
