package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStartsThatFailAreToldOnceInAWhile(t *testing.T) {
	t.Parallel()
	var s Starts
	require.False(t, s.Any())
	require.Equal(t, "after a worker that was lost", s.After(""))
	require.Equal(t, "after it exited", s.After("it exited"))
	start := time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC)
	told := map[time.Duration]int{}
	total := 0
	for at := time.Duration(0); at <= 2*StartsEach; at += 30 * time.Second {
		if n, tell := s.Failed(start.Add(at)); tell {
			told[at] = n
			total += n
		}
	}
	require.Equal(t, map[time.Duration]int{0: 1, StartsEach: 10, 2 * StartsEach: 10}, told, "the first at once, and each counted once")
	require.Equal(t, 21, total)
	require.True(t, s.Any())
	require.Equal(t, "after 21 starts that failed, the last with: no module x", s.After("no module x"))
	s = Starts{}
	n, tell := s.Failed(start.Add(2*StartsEach + 1))
	require.True(t, tell, "after a time in which it was ready the next one is told at once")
	require.Equal(t, 1, n)
	require.Equal(t, "after no module x", s.After("no module x"))
}
