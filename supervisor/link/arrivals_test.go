package link

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsStoredWaitsForOthersOnlyBehindUnclaimedWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                    string
		stored, idle, unclaimed int
		want                    bool
	}{
		{"a worker is idle", 1, 1, gatherFrom, false},
		{"nothing is on its way", 1, 0, 0, false},
		{"behind little unclaimed work", 1, 0, gatherFrom - 1, false},
		{"behind unclaimed work", 1, 0, gatherFrom, true},
		{"one less than a full group", gatherMax - 1, 0, gatherFrom, true},
		{"a full group", gatherMax, 0, gatherFrom, false},
	} {
		require.Equal(t, c.want, gathers(c.stored, c.idle, c.unclaimed), c.name)
	}
}
