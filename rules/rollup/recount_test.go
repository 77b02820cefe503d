package rollup_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
)

func TestWhatAKilledNodeHadCounted(t *testing.T) {
	t.Parallel()
	k := rollup.Killed{Incarnation: messages.NewIncarnation(), Beat: start.Add(10 * time.Second), Until: start.Add(16 * time.Second)}
	from, to := k.Minutes()
	require.Equal(t, start.Add(-time.Minute), from)
	require.Equal(t, start.Add(time.Minute), to)
	for name, c := range map[string]struct {
		e    messages.Execution
		want bool
	}{
		"ended":                        {messages.Execution{Status: messages.Completed, FinishedAt: start}, true},
		"ended with its node":          {messages.Execution{Status: messages.Failed, FinishedAt: k.Until}, true},
		"ended later":                  {messages.Execution{Status: messages.Failed, FinishedAt: k.Until.Add(1)}, false},
		"written long ago":             {messages.Execution{Status: messages.Completed, FinishedAt: from.Add(-1)}, false},
		"runs":                         {messages.Execution{Status: messages.Running}, false},
		"abandoned":                    {messages.Execution{Status: messages.Abandoned, FinishedAt: start}, true},
		"abandoned, perhaps by others": {messages.Execution{Status: messages.Abandoned, FinishedAt: k.Until}, false},
		"failed by its worker":         {messages.Execution{Status: messages.Failed, FinishedAt: k.Until, Error: &messages.Error{FailedBy: messages.FailedByWorker}}, true},
		"failed by its recorder":       {messages.Execution{Status: messages.Failed, FinishedAt: k.Until, Error: &messages.Error{FailedBy: messages.FailedByRecorder}}, true},
		"cancelled, perhaps by others": {messages.Execution{Status: messages.Cancelled, FinishedAt: k.Beat, Error: &messages.Error{FailedBy: "sweep"}}, false},
		"cancelled by its pool":        {messages.Execution{Status: messages.Cancelled, FinishedAt: start, Error: &messages.Error{FailedBy: "pool supervisor"}}, true},
	} {
		c.e.Worker.Incarnation, c.e.Generation = k.Incarnation, 1
		never := c.e
		never.Generation = 0
		require.False(t, k.Counted(&never), "%s, not claimed", name)
		require.Equal(t, c.want, k.Counted(&c.e), name)
		c.e.Worker.Incarnation = messages.NewIncarnation()
		require.False(t, k.Counted(&c.e), "%s, of another node", name)
	}
}

func TestARecountOnlyAdds(t *testing.T) {
	t.Parallel()
	row := func(minute int, action string, n int64) rollup.Row {
		return rollup.Row{Minute: start.Add(time.Duration(minute) * time.Minute), Key: rollup.Key{Action: action}, N: n}
	}
	stored := []rollup.Row{row(0, "same", 3), row(0, "more", 3), row(0, "less", 3), row(1, "a", 1), row(1, rollup.Other, 9)}
	again := []rollup.Row{row(0, "same", 3), row(0, "more", 4), row(0, "less", 2), row(0, "new", 1), row(1, "a", 5), row(2, "a", 1)}
	require.Equal(t, []rollup.Row{row(0, "more", 4), row(0, "new", 1), row(2, "a", 1)}, rollup.Recounted(stored, again))
	require.Empty(t, rollup.Recounted(again, again))
}
