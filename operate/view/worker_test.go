package view_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

// Two workers are the same unless one of their fields differs, whichever.
func TestWorkersAreTheSameUnlessAFieldDiffers(t *testing.T) {
	t.Parallel()
	other := reflect.ValueOf(view.Worker{
		ID: "a/go/1", Pool: "go", Node: "a", Runtime: "go", Generation: 2, State: "ready", Health: "healthy", Grade: "degraded", GradeCauses: []string{"memory"},
		Cordoned: true, Pid: 3, Since: time.Unix(1, 0), Execution: messages.NewExecutionID(), Heartbeat: time.Unix(2, 0), Restarts: 4, LastError: "it ended",
		Report: json.RawMessage("{}"), Stale: true, SeenAt: time.Unix(3, 0),
	})
	for i := range other.NumField() {
		var of view.Worker
		reflect.ValueOf(&of).Elem().Field(i).Set(other.Field(i))
		name := other.Type().Field(i).Name
		require.False(t, other.Field(i).IsZero(), "%s is given", name)
		require.False(t, of.Same(&view.Worker{}), name)
		again := of
		require.True(t, of.Same(&again), name)
	}
}
