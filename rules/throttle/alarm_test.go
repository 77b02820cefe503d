package throttle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAlarm(t *testing.T) {
	var a Alarm
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.False(t, a.End(), "nothing began")
	for n := range 1000 {
		pass, withheld := a.Begin(at)
		require.Equal(t, n == 0, pass)
		require.Zero(t, withheld)
		require.Equal(t, n == 0, a.End(), "the end is written where the beginning was")
		at = at.Add(time.Millisecond)
	}
	a.Begin(at)
	a.Told()
	require.True(t, a.End())
	pass, withheld := a.Begin(at.Add(Every))
	require.True(t, pass)
	require.Equal(t, 1000, withheld)
}
