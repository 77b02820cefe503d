package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store/clock"
)

// A clock follows the store's, whatever its difference from the machine's, and advances by itself between samples.
func TestAClockFollowsTheStores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &clock.Clock{}
		require.Equal(t, time.Now().Round(0), c.Now(), "nothing was compared")
		require.False(t, c.Skew().Known)
		require.False(t, c.Fresh(time.Hour))
		require.False(t, c.Stepped())
		require.Zero(t, c.Noted(time.Time{}))
		ahead := 30 * time.Second
		take := func() time.Duration {
			now := time.Now()
			return c.Take(clock.Sample{Asked: now, Answered: now, Stored: now.Add(ahead).Round(0)})
		}
		require.Zero(t, take())
		time.Sleep(time.Minute)
		require.Equal(t, time.Now().Add(ahead).Round(0), c.Now())
		require.Equal(t, -ahead, c.Skew().Ahead)
		require.True(t, c.Fresh(time.Minute))
		require.False(t, c.Fresh(59*time.Second))

		noted, due := c.Now(), c.Local(c.Now().Add(10*time.Second))
		require.Equal(t, 10*time.Second, time.Until(due))
		ahead += 10 * time.Minute
		time.Sleep(time.Second)
		require.Equal(t, 10*time.Minute, take())
		require.Equal(t, time.Now().Add(ahead).Round(0), c.Now())
		require.Equal(t, time.Second, c.Since(noted), "a step is no time that passed")
		require.Equal(t, time.Second, time.Since(c.Noted(noted)))
		require.Equal(t, 10*time.Minute+time.Second, -time.Until(c.Local(noted)), "what the store compares has moved")
		require.True(t, c.Stepped())
		require.Equal(t, 9*time.Second, time.Until(due), "what waits is not moved")
		ahead -= 20 * time.Minute
		require.Equal(t, -20*time.Minute, take())
		require.Equal(t, time.Now().Add(ahead).Round(0), c.Now())
	})
}

// An answer that arrives after that of a later question is ignored.
func TestALateAnswerIsPassedOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &clock.Clock{}
		before := time.Now()
		time.Sleep(time.Minute)
		c.Take(clock.Sample{Asked: time.Now(), Answered: time.Now(), Stored: time.Now().Add(time.Hour).Round(0)})
		require.Zero(t, c.Take(clock.Sample{Asked: before, Answered: time.Now(), Stored: before.Round(0)}))
		require.Equal(t, time.Now().Add(time.Hour).Round(0), c.Now())
	})
}

func TestANilClockIsTheMachines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c *clock.Clock
		require.Equal(t, time.Now().Round(0), c.Now())
		require.Equal(t, time.Second, time.Until(c.Local(time.Now().Add(time.Second).Round(0))))
		require.Equal(t, time.Second, c.Since(time.Now().Add(-time.Second).Round(0)))
		require.False(t, c.Skew().Known)
	})
}
