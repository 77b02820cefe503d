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
		many, want              bool
	}{
		{"a worker is idle", 1, 1, gatherFrom, false, false},
		{"nothing is on its way", 1, 0, 0, false, false},
		{"behind little unclaimed work", 1, 0, gatherFrom - 1, false, false},
		{"behind unclaimed work", 1, 0, gatherFrom, false, true},
		{"one less than a full group", gatherMax - 1, 0, gatherFrom, false, true},
		{"a full group", gatherMax, 0, gatherFrom, false, false},
		{"of many, behind one, although a worker is idle", 1, 1, 1, true, true},
		{"of many, and nothing is on its way", 1, 0, 0, true, false},
		{"of many, a full group", gatherMax, 0, gatherFrom, true, false},
	} {
		require.Equal(t, c.want, gathers(c.stored, c.many, c.idle, c.unclaimed), c.name)
	}
}
