package peers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/test/proxy"
	"github.com/troupe-run/troupe/test/servers"
)

// holds has what goes to a peer wait, as it does while its connection is replaced.
func (s *side) holds(address string) (held chan struct{}) {
	held = make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes[address].held = held
	return held
}

// connection is the one that this side has made.
func (s *side) connection() (only *outStream) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(s.t, s.outbound, 1)
	for only = range s.outbound {
	}
	return only
}

// A question waits no longer for a connection that is replaced than its caller does, and leaves nothing behind.
func TestAQuestionEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	b.works(a)
	held := a.holds(b.Address())
	defer a.release(b.Address(), held)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() {
		_, err := a.Ask(ctx, b.own, messages.Placement{}, wire.Probe{})
		asked <- err
	}()
	waits := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.calls) == 1
	}
	require.Eventually(t, waits, patience, time.Millisecond)
	cancel()
	select {
	case err := <-asked:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(patience):
		require.FailNow(t, "it still waits for the connection")
	}
	a.mu.Lock()
	require.Zero(t, a.lanes[b.Address()].queued)
	require.Empty(t, a.calls)
	a.mu.Unlock()
	a.release(b.Address(), held)
	b.works(a)
	require.Zero(t, a.Counts().Dropped[Busy], "it was not for the peer's sake")
}

// A connection that ends while it is about to be replaced is one that was lost, and so is the one after it.
func TestALossAfterAReplacementIsTold(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	b.works(a)
	first := a.connection()
	first.cancel()
	lost := func(count int64) {
		t.Helper()
		require.Eventually(t, func() bool { return a.Counts().Lost >= count }, patience, time.Millisecond, "%d connections are lost", count)
	}
	lost(1)
	a.replace(first, a.holds(b.Address())) // who has found it just before
	b.works(a)
	a.connection().cancel()
	lost(2)
}

// A connection that is lost while it is replaced is told to those that wait for an answer over it.
func TestALossWhileReplacedIsTold(t *testing.T) {
	t.Parallel()
	listen := servers.OwnAddress()
	network := proxy.New(t, listen)
	a, b := open(t), open(t, func(c *Config) { c.Settings.Listen, c.Settings.Advertise = listen, network.Addr() })
	introduce(a, b)
	b.works(a)
	network.Blackhole()
	asked := make(chan error, 1)
	go func() {
		_, err := a.AskLong(t.Context(), patience, b.own, messages.Placement{}, wire.Probe{})
		asked <- err
	}()
	written := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.calls) == 1 && a.counts.sent.Load() > 1 && a.lanes[network.Addr()].queued == 0
	}
	require.Eventually(t, written, patience, time.Millisecond)
	held := a.holds(network.Addr())
	replaced := make(chan struct{})
	going := a.connection()
	go func() {
		defer close(replaced)
		a.replace(going, held)
	}()
	ends := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return going.held == held
	}
	require.Eventually(t, ends, patience, time.Millisecond)
	network.Cut()
	require.ErrorIs(t, <-asked, ErrLost)
	<-replaced
	require.Equal(t, int64(1), a.Counts().Lost)
}
