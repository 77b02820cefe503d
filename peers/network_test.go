package peers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/proxy"
	"github.com/troupe-run/troupe/test/servers"
)

func TestPeersSayWhetherTheyRenew(t *testing.T) {
	t.Parallel()
	a, b, c := open(t), open(t), open(t)
	introduce(a, b, c)
	stranger := &side{own: messages.NewIncarnation()}
	b.renews.Store(false)
	c.renews.Store(false)
	require.Equal(t, membership.Heard{Peers: 2, Lost: 2}, a.hears(patience, b, c, stranger), "one without an address is left out")
	c.renews.Store(true)
	heard := a.hears(patience, b, c)
	require.Equal(t, 1, heard.Seen, "%+v", heard)
	require.Equal(t, membership.Heard{}, a.hears(patience, stranger))
	require.Equal(t, membership.Heard{}, a.hears(patience))
}

func TestAPeerThatIsGoneIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	a, b, c := open(t), open(t), open(t)
	introduce(a, b, c)
	b.renews.Store(false)
	c.renews.Store(false)
	require.Equal(t, 2, a.hears(patience, b, c).Lost)
	c.end()
	began := time.Now()
	require.Equal(t, membership.Heard{Peers: 2, Lost: 1}, a.hears(patience, b, c))
	require.Less(t, time.Since(began), patience)
	a.suspects(c)
	a.Forget(c.own)
	require.Equal(t, membership.Heard{Peers: 1, Lost: 1}, a.hears(patience, b, c), "one that has ended is not asked")
}

// Who has ended is no peer that a node could be cut off from, and whoever answers is one.
func TestWhoHasEndedDoesNotCount(t *testing.T) {
	t.Parallel()
	a, b, c, d := open(t), open(t), open(t), open(t)
	introduce(a, b, c, d)
	b.renews.Store(false)
	heard := func(weight membership.Weight, of ...*side) membership.Heard {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		asked := membership.Asked{}
		for _, s := range of {
			asked[weight] = append(asked[weight], s.own)
		}
		return a.Heard(ctx, asked)
	}
	c.end()
	for weight, want := range map[membership.Weight]membership.Heard{
		membership.Counts: {Peers: 1}, membership.MayRefuse: {}, membership.IfAnswers: {},
	} {
		require.Equal(t, want, heard(weight, c), "weight %d, of one that has ended", weight)
		require.Equal(t, membership.Heard{Peers: 1, Lost: 1}, heard(weight, b), "weight %d, of one that answers", weight)
		require.Equal(t, membership.Heard{Peers: 1, Seen: 1}, heard(weight, d), "weight %d, of one that renews", weight)
	}
}

// A node that starts again on the address of the one before is found there, and a connection's end was no death.
func TestAPeerComesBackAtItsAddress(t *testing.T) {
	t.Parallel()
	address := servers.OwnAddress() // free still once b has left it
	at := func(c *Config) { c.Settings.Listen = address }
	a, b := open(t), open(t, at)
	introduce(a, b)
	b.works(a)
	b.end()
	require.Equal(t, membership.Heard{Peers: 1}, a.hears(500*time.Millisecond, b))
	again := open(t, at)
	again.Know(a.row())
	a.Know(again.row())
	require.Eventually(t, func() bool { return a.hears(time.Second, again).Seen == 1 }, patience, 50*time.Millisecond)
	require.Positive(t, a.Counts().Lost)
}

// A network that swallows everything makes a peer suspect within the bound, and nothing is left of it once it heals. The peer
// is met at the address that it advertises.
func TestAPeerBehindASilentNetwork(t *testing.T) {
	t.Parallel()
	listen := servers.OwnAddress()
	network := proxy.New(t, listen)
	a, b := open(t), open(t, func(c *Config) { c.Settings.Listen, c.Settings.Advertise = listen, network.Addr() })
	require.Equal(t, network.Addr(), b.Address())
	introduce(a, b)
	b.works(a)
	network.Blackhole()
	began := time.Now()
	require.Equal(t, membership.Heard{Peers: 1}, a.hears(300*time.Millisecond, b))
	require.Less(t, time.Since(began), patience/4)
	a.suspects(b)
	network.Heal()
	b.works(a)
	// The end of the connection that was silent may still come, and makes the peer suspect until it is asked again.
	require.Eventually(t, func() bool { return a.hears(time.Second, b).Seen == 1 && a.Peers()[0].Suspect.IsZero() }, patience, 50*time.Millisecond)
}

func TestAPeerThatTakesNothing(t *testing.T) {
	t.Parallel()
	a := open(t)
	mute := &side{own: messages.NewIncarnation()}
	a.Know(store.Node{Incarnation: mute.own, Name: "mute", PeerAddress: deaf(t), PeerScope: a.Scope(), PeerProof: 1})
	began := time.Now()
	require.Equal(t, membership.Heard{Peers: 1}, a.hears(time.Second, mute))
	require.Less(t, time.Since(began), patience/4)
	var busy int
	for range 2 * queuedMax {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := a.Ask(ctx, mute.own, messages.Placement{}, wire.Probe{}); errors.Is(err, ErrBusy) {
			busy++
		}
		cancel()
	}
	require.Positive(t, busy, "no more waits for it than the bound")
	require.Positive(t, a.Counts().Dropped[Busy])
}

func TestHandlers(t *testing.T) {
	t.Parallel()
	about := messages.Placement{Execution: messages.NewExecutionID(), Attempt: 2}
	var got Request
	a, b := open(t), open(t, func(c *Config) {
		c.Handlers = []Handler{
			Handle(func(_ context.Context, r Request, m wire.Cancel) (wire.Body, error) {
				got = r
				return wire.Ack{Refused: "not here: " + m.By}, nil
			}),
			Handle(func(context.Context, Request, wire.Kill) (wire.Body, error) { return nil, errors.New("no such worker") }),
			Handle(func(context.Context, Request, wire.Inspect) (wire.Body, error) { panic("a bug") }),
		}
	})
	introduce(a, b)
	reply, err := a.Ask(t.Context(), b.own, about, wire.Cancel{By: "ana"})
	require.NoError(t, err)
	require.Equal(t, wire.Ack{Refused: "not here: ana"}, reply)
	require.Equal(t, Request{From: a.own, About: about, Proven: true}, got)
	reply, err = a.Ask(t.Context(), b.own, messages.Placement{}, wire.Kill{Pool: "p", Generation: 1})
	require.NoError(t, err)
	require.Equal(t, wire.Ack{Refused: "no such worker"}, reply)
	_, err = a.Ask(t.Context(), b.own, messages.Placement{}, wire.Cordon{Pool: "p"})
	require.ErrorIs(t, err, ErrUnsupported, "a kind that nothing here answers")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = a.Ask(ctx, b.own, messages.Placement{}, wire.Inspect{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	b.drops(Panicked, 1)
	b.works(a)
	_, err = a.Ask(t.Context(), messages.NewIncarnation(), messages.Placement{}, wire.Probe{})
	require.ErrorIs(t, err, ErrUnknown)
	a.end()
	_, err = a.Ask(t.Context(), b.own, messages.Placement{}, wire.Probe{})
	require.ErrorIs(t, err, ErrClosed)
}

// The library's own calls would panic; they are refused, and so is a port that is taken.
func TestWhatIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	conn, err := grpc.NewClient(a.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = remote.NewRemotingClient(conn).ListProcesses(t.Context(), &remote.ListProcessesRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err), "%v", err)
	a.works(b)
	_, err = Open(Config{Settings: Settings{Listen: a.Address()}, Own: messages.NewIncarnation(), Renewing: func() bool { return true }, Logger: a.cfg.Logger})
	require.ErrorContains(t, err, "listen for peers on "+a.Address())
	require.ErrorContains(t, err, "choose another address in node.peers_listen")
}

// What waits for others never keeps a peer from being heard: so many at a time, and one more is refused.
func TestLongRequestsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	release, entered := make(chan struct{}), make(chan struct{}, 2*longMax)
	a, b := open(t), open(t, func(c *Config) {
		c.Handlers = []Handler{HandleLong(patience, func(ctx context.Context, _ Request, _ wire.Drain) (wire.Body, error) {
			entered <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
			}
			return wire.Ack{}, ctx.Err()
		}), HandleLong(patience, func(ctx context.Context, _ Request, _ wire.Pools) (wire.Body, error) {
			<-ctx.Done()
			return wire.Views{}, nil
		})}
	})
	introduce(a, b)
	b.works(a)
	var done sync.WaitGroup
	for range longMax {
		done.Go(func() {
			reply, err := a.AskLong(t.Context(), patience, b.own, messages.Placement{}, wire.Drain{})
			if err != nil || reply != (wire.Ack{}) {
				t.Errorf("got %v, %v", reply, err)
			}
		})
	}
	for range longMax {
		<-entered
	}
	reply, err := a.AskLong(t.Context(), patience, b.own, messages.Placement{}, wire.Drain{})
	require.NoError(t, err)
	require.Equal(t, Crowded, reply.(wire.Ack).Code)
	b.works(a)
	close(release)
	done.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = a.AskLong(ctx, patience, b.own, messages.Placement{}, wire.Pools{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, a.Peers()[0].Suspect, "a long answer that is not waited for tells nothing")
}
