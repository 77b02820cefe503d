package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLease(false)
		require.False(t, l.MayClaim() || l.Holds(), "not granted yet")
		asked := time.Now()
		time.Sleep(time.Second) // the answer's way
		l.Grant(asked, 4*time.Second)
		time.Sleep(1399 * time.Millisecond)
		require.True(t, l.MayClaim() && l.Holds())
		time.Sleep(time.Millisecond)
		require.False(t, l.MayClaim(), "60 % of the lease, from before it was asked for")
		time.Sleep(1599 * time.Millisecond)
		require.True(t, l.Holds())
		time.Sleep(time.Millisecond)
		require.False(t, l.Holds())
		l.Grant(time.Now(), 4*time.Second)
		l.Refuse()
		l.Refuse()
		require.False(t, l.MayClaim(), "nothing is claimed before the next renewal")
		require.True(t, l.Holds(), "what is claimed may start")
		require.Len(t, l.Refused(), 1)
		l.Cut()
		require.False(t, l.Holds())
	})
}

func TestLeaseThatNobodyEvaluates(t *testing.T) {
	t.Parallel()
	var none *Lease
	none.Refuse()
	unlimited := NewLease(true)
	unlimited.Refuse()
	unlimited.Cut()
	for _, l := range []*Lease{none, unlimited} {
		require.True(t, l.MayClaim() && l.Holds())
	}
}

// A node says that it renews its lease while the last renewal is young, and once it has for half its length.
func TestLeaseIsRenewing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		require.False(t, (*Lease)(nil).Renewing(), "there is none yet")
		require.False(t, (*Lease)(nil).Fresh())
		l := NewLease(false)
		require.False(t, l.Renewing(), "it has not been granted")
		const length = 10 * time.Second
		since := time.Now()
		for range 5 {
			l.Grant(time.Now(), length)
			l.Steady(since, length)
			require.False(t, l.Renewing(), "too early to say")
			require.True(t, l.Fresh())
			time.Sleep(time.Second)
		}
		l.Grant(time.Now(), length)
		require.True(t, l.Renewing())
		time.Sleep(4*time.Second - time.Nanosecond)
		require.True(t, l.Renewing())
		time.Sleep(time.Nanosecond)
		require.False(t, l.Renewing(), "the last renewal is too old")
		require.False(t, l.Fresh())
		require.True(t, l.MayClaim())
		l.Grant(time.Now(), length)
		require.True(t, l.Renewing())
		l.Cut()
		require.False(t, l.Renewing(), "the node has given itself up")
	})
}
