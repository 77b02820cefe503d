package router

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// lines are what is due, in order: those without a session, and the heads of sessions.
type lines struct {
	plain, heads []messages.Candidate
	looks        int
}

func (l *lines) Due(_ context.Context, q store.DueQuery) (page store.DuePage, err error) {
	l.looks++
	for _, c := range l.plain {
		if behind := q.AfterSeq > 0 && (c.Priority > q.AfterPriority || c.Priority == q.AfterPriority && c.Seq <= q.AfterSeq); behind {
			continue
		}
		if len(page.Candidates) == q.Limit {
			page.More = true
			break
		}
		page.Candidates = append(page.Candidates, c)
	}
	page.Candidates = append(page.Candidates, l.heads[:min(q.Heads, len(l.heads))]...)
	page.More = page.More || len(l.heads) > q.Heads
	return page, nil
}

func waits(n int, first int64, action, session string) (list []messages.Candidate) {
	for i := range n {
		list = append(list, messages.Candidate{ID: messages.NewExecutionID(), Seq: first + int64(i), Priority: 5, Action: action, Session: session})
	}
	return list
}

// What is served is found behind what is not, however many stand in front, and in one look where all is served.
func TestWhatIsServedIsFoundBehindWhatIsNot(t *testing.T) {
	t.Parallel()
	served := func(c *messages.Candidate) bool { return c.Action == "here" }
	q := store.DueQuery{Limit: 100, Heads: 100}
	for name, c := range map[string]struct {
		of    lines
		found int
		looks int // at most
	}{
		"all is served":        {lines{plain: waits(500, 1, "here", "")}, 100, 1},
		"one in front":         {lines{plain: append(waits(1, 1, "away", ""), waits(500, 2, "here", "")...)}, 299, 2},
		"many in front":        {lines{plain: append(waits(100_000, 1, "away", ""), waits(3, 200_000, "here", "")...)}, 3, 30},
		"more behind them":     {lines{plain: append(append(waits(5000, 1, "away", ""), waits(1, 6000, "here", "")...), waits(9000, 7000, "away", "")...)}, 1, 20},
		"many heads in front":  {lines{heads: append(waits(4000, 1, "away", "s"), waits(1, 5000, "here", "t")...)}, 1, 10},
		"nothing is served":    {lines{plain: waits(300, 1, "away", ""), heads: waits(300, 1000, "away", "s")}, 0, 10},
		"too many are not":     {lines{plain: waits(400_000, 1, "away", "")}, 0, dueRounds + 1},
		"too many heads, away": {lines{heads: waits(30_000, 1, "away", "s")}, 0, 10},
	} {
		page, err := due(t.Context(), &c.of, q, served)
		require.NoError(t, err)
		require.Len(t, page.Candidates, c.found, name)
		require.LessOrEqual(t, c.of.looks, c.looks, name)
		seen := map[messages.ExecutionID]bool{}
		for i := range page.Candidates {
			require.True(t, served(&page.Candidates[i]), name)
			require.False(t, seen[page.Candidates[i].ID], "%s: one stands twice", name)
			seen[page.Candidates[i].ID] = true
		}
	}
}
