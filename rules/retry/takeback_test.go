package retry

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTakeBackDelay(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{
		-1: 0, 0: 0, 4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16, 10: 30, 11: 30, 1 << 30: 30,
	} {
		require.Equal(t, want*time.Second, TakeBackDelay(n), "%d take-backs", n)
	}
}

func TestShortageDelay(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{
		-1: 1, 0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 16, 6: 30, 7: 30, math.MaxInt: 30,
	} {
		require.Equal(t, want*time.Second, ShortageDelay(n), "attempt %d", n)
	}
}
