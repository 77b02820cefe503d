package peers

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
)

// uses reports whether all connections between nodes are made with one secret.
func uses(secret int64, sides ...*side) bool {
	for _, s := range sides {
		s.mu.Lock()
		ok := true
		for out := range s.outbound {
			ok = ok && out.secret == secret
		}
		for in := range s.inbound {
			ok = ok && in.server.Secret() == secret
		}
		s.mu.Unlock()
		if !ok {
			return false
		}
	}
	return true
}

// Rotations while nodes ask each other without a pause lose no question, and nobody becomes suspect by them. Afterwards no connection
// is left that was made with the secret before.
func TestARotationLosesNothing(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	a.works(b)
	b.works(a)
	ctx, cancel := context.WithCancel(t.Context())
	var asks sync.WaitGroup
	var answered, suspected atomic.Int64
	for _, pair := range [][2]*side{{a, b}, {b, a}} {
		asks.Go(func() {
			for ctx.Err() == nil {
				_, err := pair[0].AskAgain(t.Context(), pair[1].own, messages.Placement{}, wire.Probe{})
				if err != nil {
					t.Error(err)
					return
				}
				answered.Add(1)
				if !pair[0].Peers()[0].Suspect.IsZero() {
					suspected.Add(1)
				}
			}
		})
	}
	for range 3 {
		a.in.rotate(t, time.Hour)
		// One of the two reads it first, as it comes; the other finds it when it is meant.
		require.NoError(t, a.keys.Load().read(t.Context()))
		secret := a.in.secret().ID
		require.Eventually(t, func() bool { return uses(secret, a, b) }, patience, 10*time.Millisecond, "with secret %d", secret)
		before := answered.Load()
		require.Eventually(t, func() bool { return answered.Load() > before+10 }, patience, time.Millisecond)
	}
	cancel()
	asks.Wait()
	require.Zero(t, suspected.Load())
}

// A secret that is given up at once ends what was made with it, and the nodes go on with the next.
func TestARotationWithoutOverlap(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	a.works(b)
	b.works(a)
	stolen := a.in.secret()
	a.in.rotate(t, 0)
	for _, s := range []*side{a, b} {
		require.NoError(t, s.keys.Load().read(t.Context()))
		_, ok := s.keys.Load().accepted(stolen.ID)
		require.False(t, ok)
		s.renew(s.keys.Load())
	}
	require.Eventually(t, func() bool {
		return uses(stolen.ID+1, a, b) && a.hears(time.Second, b).Seen == 1 && b.hears(time.Second, a).Seen == 1
	},
		patience, 10*time.Millisecond)
}

// A secret that was rotated out is accepted for what was left of it, by this process's clock, whether the store answers then or not.
func TestASecretThatWasRotatedOut(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := openIn(t, c)
	before := c.secret().ID
	c.rotate(t, 50*time.Millisecond)
	keys := a.keys.Load()
	require.NoError(t, keys.read(t.Context()))
	c.mu.Lock()
	c.away = true
	c.mu.Unlock()
	require.Error(t, keys.read(t.Context()))
	current, ok := keys.current()
	require.True(t, ok, "what is known is used")
	require.Equal(t, before+1, current.ID)
	require.Eventually(t, func() bool { _, ok := keys.accepted(before); return !ok }, patience, time.Millisecond)
	_, ok = keys.accepted(before + 1)
	require.True(t, ok)
}

// Those that have connected and proven nothing are bounded in time, number and bytes, and keep no peer out.
func TestStrangersAreBounded(t *testing.T) {
	t.Parallel()
	const most = 8
	a, b := open(t), open(t)
	introduce(a, b)
	a.unproven.mu.Lock()
	a.unproven.max = most
	a.unproven.mu.Unlock()
	var idle []net.Conn
	for range 5 * most {
		conn, err := net.Dial("tcp", a.Address())
		require.NoError(t, err)
		defer conn.Close()
		idle = append(idle, conn)
	}
	a.drops(Unproven, 4*most)
	require.LessOrEqual(t, a.unproven.count(), most)
	require.NoError(t, idle[0].SetDeadline(time.Now().Add(patience)))
	_, err := idle[0].Read(make([]byte, 1<<10)) // the server's preface may come first
	for err == nil {
		_, err = idle[0].Read(make([]byte, 1<<10))
	}
	var late net.Error
	require.False(t, errors.As(err, &late) && late.Timeout(), "the first that came is ended")
	require.Equal(t, 1, b.hears(patience, a).Seen)
	// One that says nothing is ended after its time.
	a.unproven.mu.Lock()
	a.unproven.limit = 50 * time.Millisecond
	a.unproven.mu.Unlock()
	for _, conn := range idle {
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return a.unproven.count() == 0 }, patience, time.Millisecond)
	before := a.Counts().Dropped[Unproven]
	silent := stranger(t, a, nil)
	a.drops(Unproven, before+1)
	require.Error(t, silent.ended())
	require.Equal(t, 1, b.hears(patience, a).Seen, "a peer that has proven itself stays")
}

func TestAStrangerSaysLittle(t *testing.T) {
	t.Parallel()
	h := newUnprovenConns(func(net.Addr) {})
	near, far := net.Pipe()
	defer near.Close()
	g := h.enter(far)
	defer g.Close()
	go func() {
		for { // ends with the pipe
			if _, err := near.Write(make([]byte, 8<<10)); err != nil {
				return
			}
		}
	}()
	b, total := make([]byte, 4<<10), 0
	for {
		count, err := g.Read(b)
		total += count
		if err != nil {
			require.ErrorIs(t, err, errStranger)
			break
		}
		require.LessOrEqual(t, total, unprovenBytes)
	}
	g.trust()
	_, err := g.Read(b)
	require.NoError(t, err)
	require.Zero(t, h.count())
}
