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
	to, mid := from.Add(time.Hour), from.Add(30*time.Minute)
	in := []Requested{
		{Minute: from.Add(-time.Minute), Status: messages.Completed, N: 3}, {Minute: from, Status: messages.Running, N: 2, Edge: 2, StateLost: 1},
		{Minute: from, Status: messages.Completed, N: 80, Retries: 4, Repeated: 3}, {Minute: from.Add(30 * time.Minute), Status: messages.Completed, N: 10},
		{Minute: from.Add(59 * time.Minute), Status: messages.Failed, N: 8, TakenBack: 2}, {Minute: to, Status: messages.Requested, N: 9, Edge: 2},
		{Minute: to.Add(time.Minute), Status: messages.Requested, N: 50, Edge: 50},
	}
	for _, c := range []struct {
		name    string
		in      []Requested
		counted int64
		gone    Deleted
		kept    time.Time
		missing int64
		purged  string
		notes   []string
	}{
		{"as many as were counted", in, 100, Deleted{}, time.Time{}, 0, "0", nil},
		{"some of those shortly before and behind were counted in it", in, 105, Deleted{}, time.Time{}, 0, "0", nil},
		{"more were counted than there are", in, 107, Deleted{}, time.Time{}, 2, "0", nil},
		{"none is in the store", nil, 3, Deleted{}, time.Time{}, 3, "0", nil},
		{"a program stored some by itself", in, 60, Deleted{}, time.Time{}, 0, "0", []string{"40 more were accepted"}},
		{"some were deleted", in, 110, Deleted{N: 10}, from.Add(time.Minute), 0, "10", nil},
		{"some were deleted, and more are missing", in, 118, Deleted{N: 10}, from.Add(time.Minute), 3, "10", nil},
		{"some of those beside it were deleted", in, 118, Deleted{N: 10, Around: 3}, from.Add(time.Minute), 0, "10", nil},
		{"all were deleted", nil, 10, Deleted{N: 10}, to, 0, "10", nil},
		{"some were deleted meanwhile", in, 108, Deleted{N: 8, During: 3}, from.Add(time.Minute), 0, "≈ 8", []string{"3 were deleted while"}},
		{"deletions were not counted then", in, 110, Deleted{N: 2, From: mid}, from.Add(time.Minute), 3, "≥ 2", []string{"requested before 2026-03-01T03:30:00Z"}},
		{"none was counted", in, 100, Deleted{From: mid}, from.Add(time.Minute), 0, "unknown", []string{"it is not known how many were deleted"}},
		{"nothing can have been deleted yet", in, 100, Deleted{From: mid}, from, 0, "0", nil},
		{"nothing is ever deleted", in, 100, Deleted{From: mid}, time.Time{}, 0, "0", nil},
		{"some are missing, and it was kept for a shorter time before", in, 107, Deleted{From: mid}, from, 2, "unknown", []string{"may be missing here"}},
		{"deletions were counted by then", in, 110, Deleted{N: 2, From: from}, from.Add(time.Minute), 3, "2", nil},
	} {
		l, around := NewLedger(from, to, c.in)
		l.Compare(c.counted, around, c.gone, c.kept)
		require.Equal(t, c.missing, l.Missing, c.name)
		require.Equal(t, c.purged, l.PurgedText(), c.name)
		require.Equal(t, l.Accepted, total(l.Ended)+total(l.Open)+l.Purged, c.name)
		require.Equal(t, c.missing == 0, l.AddsUp, c.name)
		require.Len(t, l.Notes, len(c.notes), c.name)
		for i, note := range c.notes {
			require.Contains(t, l.Notes[i], note, c.name)
		}
	}
	l, around := NewLedger(from, to, in)
	require.EqualValues(t, 5, around)
	require.Equal(t, []StatusCount{{messages.Completed, 90}, {messages.Failed, 8}}, l.Ended)
	require.Equal(t, []StatusCount{{messages.Running, 2}}, l.Open)
	require.Equal(t, []int64{100, 4, 3, 2, 1}, []int64{l.Accepted, l.Retries, l.Repeated, l.TakenBack, l.StateLost})

	l, around = NewLedger(from, mid, in)
	require.Equal(t, []int64{82, 3}, []int64{l.Accepted, around}, "what follows its end is left out")
}

// What was not counted is not compared, and what the nodes counted of it is not taken for what was.
func TestALedgerSaysWhatItDoesNotCompare(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	to := from.Add(time.Hour)
	for name, c := range map[string]struct{ until, to time.Time }{
		"all was counted":                          {time.Time{}, to},
		"up to within a minute":                    {from.Add(90 * time.Second), from.Add(time.Minute)},
		"what is shortly behind it was not":        {from.Add(time.Minute + LedgerAfter - 1), from},
		"what is shortly behind it was":            {from.Add(time.Minute + LedgerAfter), from.Add(time.Minute)},
		"not even the first minute":                {from.Add(30 * time.Second), from},
		"what was requested shortly before, alone": {from.Add(-time.Second), from},
		"more than was asked for":                  {to.Add(time.Minute), to},
	} {
		require.Equal(t, c.to, LedgerTo(from, to, c.until), name)
	}
	sums := Sums{}
	for _, r := range []Row{{Key: Key{Status: Submitted}, N: 40}, {Key: Key{Status: messages.Failed}, N: 3}, {Key: Key{Status: messages.Completed, Pool: "p"}, N: 30}, {Key: Key{Status: messages.Completed}, N: 1}} {
		sums.Add(&r)
	}
	l, around := NewLedger(from, from.Add(time.Minute), []Requested{{Minute: from, Status: messages.Completed, N: 5}})
	l.Compare(5, around, Deleted{}, time.Time{})
	l.Leave(to, sums)
	require.Equal(t, &Rest{From: from.Add(time.Minute), To: to, Submitted: 40, Ended: []StatusCount{{messages.Completed, 31}, {messages.Failed, 3}}}, l.Rest)
	require.Equal(t, []int64{5, 5, 0}, []int64{l.Accepted, l.Counted, l.Missing})
	require.Equal(t, from.Add(time.Minute), l.Until)
	require.Empty(t, l.Notes)

	l, around = NewLedger(from, from, nil)
	l.Compare(0, around, Deleted{}, time.Time{})
	l.Leave(to, Sums{})
	require.Equal(t, []any{from, from, from.Add(time.Minute)}, []any{l.To, l.Rest.From, l.Until}, "who asks again from there goes on")
	require.Contains(t, l.Notes[0], "nothing is compared")
}

func total(list []StatusCount) (n int64) {
	for _, s := range list {
		n += s.N
	}
	return n
}
