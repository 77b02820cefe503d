package rollup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func TestALedgerAddsUpUnlessOneIsMissing(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	to, in := from.Add(time.Hour), []Requested{
		{Status: messages.Running, N: 2, StateLost: 1}, {Status: messages.Completed, N: 90, Retries: 4, Repeated: 3}, {Status: messages.Failed, N: 8, TakenBack: 2},
	}
	const few = 5
	for _, c := range []struct {
		name    string
		in      []Requested
		around  int64
		counted int64
		kept    time.Time
		missing int64
		notes   []string
	}{
		{"as many as were counted", in, few, 100, time.Time{}, 0, nil},
		{"some of those shortly before were counted in it", in, few, 105, time.Time{}, 0, nil},
		{"more were counted than there are", in, few, 107, time.Time{}, 2, nil},
		{"none is in the store", nil, 0, 3, time.Time{}, 3, nil},
		{"a program stored some by itself", in, 0, 60, time.Time{}, 0, []string{"40 more are stored"}},
		{"some were deleted", in, few, 110, from.Add(time.Minute), 5, []string{"ended before 2026-03-01T03:01:00Z are deleted"}},
		{"none was deleted yet", in, few, 100, from, 0, nil},
	} {
		l := NewLedger(from, to, c.in, c.around, c.counted, c.kept)
		require.Equal(t, c.missing, l.Missing, c.name)
		require.Equal(t, c.missing == 0, l.AddsUp, c.name)
		require.Len(t, l.Notes, len(c.notes), c.name)
		for i, note := range c.notes {
			require.Contains(t, l.Notes[i], note, c.name)
		}
	}
	l := NewLedger(from, to, in, few, 100, time.Time{})
	require.Equal(t, []StatusCount{{messages.Completed, 90}, {messages.Failed, 8}}, l.Ended)
	require.Equal(t, []StatusCount{{messages.Running, 2}}, l.Open)
	require.Equal(t, []int64{100, 4, 3, 2, 1}, []int64{l.Accepted, l.Retries, l.Repeated, l.TakenBack, l.StateLost})
}
