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

// Bounds of the remoting. Both sides of a connection have them, so a node that keeps them is never refused.
const (
	batchMax     = 16                               // envelopes of one write
	envelopeMax  = wire.PayloadMax + 1<<10          // bytes of one envelope: payload and header
	receiveMax   = batchMax * (envelopeMax + 1<<10) // bytes of one write, its names included
	windowSize   = 256 << 10                        // unread bytes of one stream
	connWindow   = 2 * windowSize                   // unread bytes of one connection
	streamsMax   = 1024 + unprovenMax*perConn       // one stream of each peer, and those of connections without a proof
	perConn      = 4                                // streams of one connection
	queueSize    = 64                               // initial size of the library's queue to one peer
	headersMax   = 16 << 10                         // bytes of a stream's headers
	answerMax    = 64 << 10                         // bytes of an answer in the library's handshake
	retryOnce    = 1                                // each further try of the library would leak a connection
	aliveEvery   = 10 * time.Second                 // between two keep-alives on an idle connection
	aliveTimeout = 3 * time.Second                  // for the answer to a keep-alive
	aliveLeast   = 5 * time.Second                  // a peer that sends them more often is disconnected
	dialTime     = 2 * time.Second                  // for one connection
	handshake    = 3 * time.Second                  // for one connection with the library's greeting
	sendTime     = 10 * time.Second                 // for one write; after it the stream ends
	target       = "peers"                          // the only valid target of envelopes
	envelopeType = "troupe.v1.Envelope"             // the only accepted type
)

// Config configures a network.
type Config struct {
	Settings Settings
	Own      messages.Incarnation
	// Renewing reports whether this node renews its lease, for answers to probes. It is called from many goroutines.
	Renewing func() bool
	// Lost, where set, is called when the connection to a peer has ended. It must not block.
	Lost func()
	// Handlers answer requests; the network itself answers probes. Each kind has one handler at most.
	Handlers []Handler
	AskTime  time.Duration // maximum wait of an Ask [2 s]
	// Believed is how long a row in the store is believed that says that a node gives no proof, while the store does
	// not answer. It holds for nodes that the directory does not know; at least registerAge [12 s].
	Believed time.Duration
	// Machine names the processes that a loopback address reaches: those in one network namespace of one boot of one
	// machine [from the kernel].
	Machine func() string
	Logger  hclog.Logger
}

// Network is this node's side of the remoting. Open makes one. It is safe for concurrent use and outlives the peers
// actor.
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
	unproven *unprovenConns // connections without a proof
	work     sync.WaitGroup // handlers and requests in work
	changed  chan struct{}  // capacity one: a peer's standing has changed

	// sending is held for reading during calls of the library, which panics once its actors have been stopped.
	sending sync.RWMutex
	closed  bool

	mu       sync.Mutex
	peers    map[messages.Incarnation]*peer
	lanes    map[string]*lane // by address
	calls    map[callID]*call
	outbound map[*outStream]struct{}
	inbound  map[*gate]struct{} // the accepted streams
	// Limits for log lines that any client can cause.
	tellsRefused, tellsMistrusted, tellsUnread throttle.Gate
}

// Open opens the port and begins to answer. After an error nothing is left open.
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
	n.unproven = newUnprovenConns(n.expired)
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

// options returns the library's settings. Its defaults do not suit a node that must survive every failure.
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
		remote.WithServerOptions(grpc.Creds(trackedCredentials{serving, n.unproven}), grpc.MaxRecvMsgSize(receiveMax), grpc.MaxConcurrentStreams(perConn),
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

// refuseUnary refuses the library's own calls, which would panic.
func refuseUnary(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
	return nil, status.Error(codes.Unimplemented, "nodes tell one another envelopes, and nothing else")
}

// starting is held while the library starts, because it sets gRPC's log for the whole process.
var starting sync.Mutex

// listen starts the library, which panics if it cannot listen.
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

// Address is the address for this node's peers: the advertised one, or else the one that it listens on, with the real
// port.
func (n *Network) Address() string { return n.address }

// ErrClosed means that the network has been closed.
var ErrClosed = errors.New("this node's network to its peers is closed")

// send passes an envelope to the library, which silently drops it if the peer cannot be reached.
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

// Close ends every connection, closes the port, and waits for running handlers and requests, or for ctx. Callers that
// wait for an answer get ErrClosed.
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
	n.remote.Shutdown(false) // a graceful shutdown may hang, and races with incoming messages
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

// beside runs do in a goroutine, unless the network is closing. It recovers and counts a panic.
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

// survive recovers a panic of the goroutine that defers it.
func (n *Network) survive(where string) {
	if r := recover(); r != nil {
		n.counts.drop(Panicked)
		n.cfg.Logger.Error("panic while handling what a peer sent", "where", where, "panic", r)
	}
}
