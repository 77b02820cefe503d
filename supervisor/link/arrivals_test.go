package link

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsStoredWaitsForOthersOnlyBehindUnclaimedWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		stored, unclaimed int
		more, want        bool
	}{
		{"alone", 1, 1, false, false},
		{"others come, nothing is on its way", 1, 0, true, false},
		{"others come behind unclaimed work", 1, 1, true, true},
		{"one less than a full group", gatherMax - 1, 1, true, true},
		{"a full group", gatherMax, 1, true, false},
	} {
		require.Equal(t, c.want, gathers(c.stored, c.more, c.unclaimed), c.name)
	}
}
