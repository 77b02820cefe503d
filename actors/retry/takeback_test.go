package retry

import (
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
