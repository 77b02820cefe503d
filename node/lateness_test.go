package node

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
)

func TestLateness(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		state       actors.BacklogState
		stuck, held string
	}{
		"nothing waits":       {},
		"it commits":          {state: actors.BacklogState{Changes: 3, Oldest: ago(30 * time.Second), Committed: ago(time.Second)}},
		"it waits not long":   {state: actors.BacklogState{Changes: 3, Oldest: ago(4 * time.Second), Committed: ago(time.Hour)}},
		"nothing committed":   {state: actors.BacklogState{Changes: 3, Oldest: ago(7 * time.Second), Committed: ago(time.Hour)}, stuck: "recorder: nothing committed for 7s; the oldest of 3 changes has waited for 7s"},
		"for a part of it":    {state: actors.BacklogState{Changes: 3, Oldest: ago(70 * time.Second), Committed: ago(6 * time.Second)}, stuck: "recorder: nothing committed for 6s; the oldest of 3 changes has waited for 1m10s"},
		"one is held":         {state: actors.BacklogState{Apart: 1, ApartOldest: ago(45 * time.Second), Why: errors.New("locked")}, held: "recorder: changes of 1 executions are not committed, the oldest for 45s; all others go on: locked"},
		"one is held briefly": {state: actors.BacklogState{Apart: 1, ApartOldest: ago(time.Second)}},
	} {
		stuck, held := lateness(c.state, now)
		require.Equal(t, c.stuck, stuck, name)
		require.Equal(t, c.held, held, name)
	}
}
