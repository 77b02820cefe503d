package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
	"github.com/troupe-run/troupe/rules/throttle"
)

// Bounds of the remoting. Both ends of a connection have them, so a node that holds to them is never refused.
const (
	batchMax     = 16                               // envelopes of one write
	envelopeMax  = wire.PayloadMax + 1<<10          // bytes of one envelope: its payload and its head
	receiveMax   = batchMax * (envelopeMax + 1<<10) // bytes of one write, its names included
	windowSize   = 256 << 10                        // bytes that one stream may send unread
	connWindow   = 2 * windowSize                   // bytes that one connection may
	streamsMax   = 1024 + strangersMax*perConn      // streams of peers, one each, and of all that may yet prove themselves
	perConn      = 4                                // streams of one connection
	queueSize    = 64                               // places that the library's queue to one peer begins with
	headersMax   = 16 << 10                         // bytes of a stream's headers
	answerMax    = 64 << 10                         // bytes of what the library's handshake answers
	retryOnce    = 1                                // each further try of the library leaks a connection
	aliveEvery   = 10 * time.Second                 // between two signs of life on an idle connection
	aliveTimeout = 3 * time.Second                  // for the answer to one
	aliveLeast   = 5 * time.Second                  // a peer that sends them more often is cut off
	dialTime     = 2 * time.Second                  // for one connection
	handshake    = 3 * time.Second                  // for one connection and the library's greeting on it
	sendTime     = 10 * time.Second                 // for one write; past it the stream is ended
	target       = "peers"                          // the one name that envelopes are sent to
	envelopeType = "troupe.v1.Envelope"             // the one type that is taken
)

// Config is what a network needs.
type Config struct {
	Settings Settings
	Own      messages.Incarnation
	// Renewing says whether this node renews its lease, as an answer to a probe. It is called from many goroutines.
	Renewing func() bool
	// Handlers answer requests, beside the probe that the network answers itself; each kind has one at most.
	Handlers []Handler
	AskTime  time.Duration // that an Ask waits at most [2 s]
	// Believed is how long the store's last word that a node proves nothing holds while the store does not answer, for nodes that the
	// directory does not know; at least registerAge [12 s].
	Believed time.Duration
	// Machine names whom a loopback address reaches: all that share a network namespace of one boot of one machine [what the
	// kernel says].
	Machine func() string
	Logger  hclog.Logger
}

// Network is this node's end of the remoting. Open makes one; it is safe for concurrent use and outlives the peers actor.
type Network struct {
	cfg      Config
	system   *actors.System
	remote   *remote.Remote
	address  string
	scope    string // of the address
	handlers map[reflect.Type]handle
	counts   counts
	streams  atomic.Int64
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	keys     atomic.Pointer[keyring] // nil: the node does not belong to a cluster yet
	register register
	hall     *hall          // of those that have not proven themselves
	work     sync.WaitGroup // of handlers and questions under way
	changed  chan struct{}  // holds one: how a peer stands has changed

	// sending is held for reading while the library is given something: it panics once its actors have been stopped.
	sending sync.RWMutex
	closed  bool

	mu       sync.Mutex
	peers    map[messages.Incarnation]*peer
	lanes    map[string]*lane // by address
	calls    map[callID]*call
	outbound map[*outStream]struct{}
	inbound  map[*gate]struct{} // those that were let in
	// What anybody can bring about is told from time to time.
	tellsRefused, tellsMistrusted, tellsUnread throttle.Gate
}

// Open takes the port and begins to answer. An error leaves nothing behind.
func Open(cfg Config) (*Network, error) {
	if err := cfg.Settings.Check(); err != nil {
		return nil, err
	}
	if cfg.AskTime == 0 {
		cfg.AskTime = 2 * time.Second
	}
	if cfg.Believed == 0 {
		cfg.Believed = 12 * time.Second
	}
	cfg.Believed = max(cfg.Believed, registerAge)
	if cfg.Machine == nil {
		cfg.Machine = machine
	}
	serving, dialing, err := cfg.Settings.credentials()
	if err != nil {
		return nil, err
	}
	n := &Network{
		cfg: cfg, system: actors.NewSystem(cfg.Logger), changed: make(chan struct{}, 1),
		peers: map[messages.Incarnation]*peer{}, lanes: map[string]*lane{}, calls: map[callID]*call{},
		outbound: map[*outStream]struct{}{}, inbound: map[*gate]struct{}{},
	}
	n.hall = newHall(n.expired)
	n.handlers = tableOf(append([]Handler{Handle(n.probed)}, cfg.Handlers...))
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.system.Actors.EventStream.Subscribe(n.heardOf)
	n.remote = remote.NewRemote(n.system.Actors, n.options(serving, dialing))
	if err := n.listen(); err != nil {
		n.cancel()
		return nil, err
	}
	n.address = n.system.Actors.Address()
	if loops(n.address) {
		n.scope = cfg.Machine()
	}
	return n, nil
}

// options are all settings of the library that its defaults get wrong for a node that must live through anything.
func (n *Network) options(serving, dialing credentials.TransportCredentials) *remote.Config {
	host, port, _ := net.SplitHostPort(n.cfg.Settings.Listen)
	number, _ := strconv.Atoi(port)
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // the library joins them with a colon
	}
	c := remote.Configure(host, number,
		remote.WithAdvertisedHost(n.cfg.Settings.Advertise),
		remote.WithEndpointWriterBatchSize(batchMax), remote.WithEndpointWriterQueueSize(queueSize),
		remote.WithEndpointManagerBatchSize(batchMax), remote.WithEndpointManagerQueueSize(queueSize),
		remote.WithServerOptions(grpc.Creds(door{serving, n.hall}), grpc.MaxRecvMsgSize(receiveMax), grpc.MaxConcurrentStreams(perConn),
			grpc.InitialWindowSize(windowSize), grpc.InitialConnWindowSize(connWindow), grpc.MaxHeaderListSize(headersMax),
			grpc.ConnectionTimeout(handshake), grpc.ForceServerCodecV2(newSlim()),
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: aliveEvery, Timeout: aliveTimeout}),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: aliveLeast, PermitWithoutStream: true}),
			grpc.ChainStreamInterceptor(n.admit), grpc.ChainUnaryInterceptor(refuseUnary)),
		remote.WithDialOptions(grpc.WithTransportCredentials(dialing), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(answerMax)), grpc.WithChainStreamInterceptor(n.dialed),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: aliveEvery, Timeout: aliveTimeout, PermitWithoutStream: true}),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: dialTime})))
	c.MaxRetryCount = retryOnce
	return c
}

// refuseUnary answers the library's own calls, which would panic.
func refuseUnary(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
	return nil, status.Error(codes.Unimplemented, "nodes tell one another envelopes, and nothing else")
}

// starting is held while the library starts: it sets the log of gRPC, which is the whole process's.
var starting sync.Mutex

// listen starts the library, which panics where it cannot listen.
func (n *Network) listen() (err error) {
	starting.Lock()
	defer starting.Unlock()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("listen for peers on %s: %v; choose another address in node.peers_listen, or set it to off", n.cfg.Settings.Listen, r)
		}
	}()
	n.remote.Start()
	return nil
}

// Address is where the peers reach this node: what it advertises, or else the address that it listens on, with the port that
// it was given where it asked for any.
func (n *Network) Address() string { return n.address }

// ErrClosed says that the network has been closed.
var ErrClosed = errors.New("this node's network to its peers is closed")

// send hands an envelope to the library, which drops it without a word where the peer cannot be reached.
func (n *Network) send(address string, e *troupev1.Envelope) error {
	n.sending.RLock()
	defer n.sending.RUnlock()
	if n.closed {
		return ErrClosed
	}
	n.system.Actors.Root.Send(actor.NewPID(address, target), e)
	n.counts.sent.Add(1)
	return nil
}

// Close ends every connection, gives the port back, and waits for what is under way, or for ctx. Who waits for an answer
// gets ErrClosed.
func (n *Network) Close(ctx context.Context) error {
	n.sending.Lock()
	again := n.closed
	n.closed = true
	n.sending.Unlock()
	if again {
		return nil
	}
	n.cancel()
	n.failAll(ErrClosed)
	n.remote.Shutdown(false) // the graceful way may hang, and races with what still arrives
	var errs []error
	for _, id := range []string{"EndpointSupervisor", "activator"} {
		errs = append(errs, n.system.StopAndWait(ctx, n.system.PID(id)))
	}
	done := make(chan struct{})
	go func() {
		n.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("close the network to peers: %w", context.Cause(ctx)))
	}
	return errors.Join(errs...)
}

// beside runs something next to the caller, unless the network is closing. A panic in it is counted and ends nothing.
func (n *Network) beside(do func()) bool {
	n.sending.RLock()
	defer n.sending.RUnlock()
	if n.closed {
		return false
	}
	n.work.Go(func() {
		defer n.survive("beside")
		do()
	})
	return true
}

// survive keeps a panic of the goroutine that defers it from ending the node.
func (n *Network) survive(where string) {
	if r := recover(); r != nil {
		n.counts.drop(Panicked)
		n.cfg.Logger.Error("panic while handling what a peer sent", "where", where, "panic", r)
	}
}
