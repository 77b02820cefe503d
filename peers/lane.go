package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/peers/proof"
)

// lane counts the outgoing messages of one address.
type lane struct {
	seq    uint64    // sequence number of the last envelope
	queued int       // envelopes in the library that are not written
	quiet  time.Time // no message is sent before it
	// held exists while the connection is replaced, and is closed at the end. Messages wait for it; nil: they need not.
	held chan struct{}
	// replaced is the value of held for a replaced connection that has ended, until the library reports that end; nil:
	// there is none.
	replaced chan struct{}
}

// Bounds on outgoing messages. An envelope counts from when the library gets it until it is written or lost.
const (
	queuedMax = 128                   // envelopes that wait for one address
	lanesMax  = 4 * streamsMax        // addresses
	quietTime = 20 * time.Millisecond // without sending after a connection's end; otherwise the library would also end the next connection
)

// Errors of a request that was not sent, or whose answer will not arrive. The request may be repeated.
var (
	ErrBusy = errors.New("too much waits for the peer")
	ErrLost = errors.New("the connection to the peer was lost")
)

// book counts an envelope before it is sent, and numbers it. It waits while the connection is replaced, at most until
// ctx ends; then it counts nothing.
func (n *Network) book(ctx context.Context, address string) (seq uint64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := n.lanes[address]; l != nil && l.held != nil; l = n.lanes[address] {
		held := l.held
		n.mu.Unlock()
		select {
		case <-held: // within writtenTime and closedTime
		case <-ctx.Done():
		}
		n.mu.Lock()
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
	l := n.lanes[address]
	if l == nil {
		if len(n.lanes) >= lanesMax {
			return 0, fmt.Errorf("send to %s: %w: %d other addresses are in use", address, ErrBusy, len(n.lanes))
		}
		l = &lane{}
		n.lanes[address] = l
	}
	if l.queued >= queuedMax {
		return 0, fmt.Errorf("send to %s: %w: %d envelopes", address, ErrBusy, l.queued)
	}
	l.queued++
	l.seq++
	return l.seq, nil
}

// unbook removes envelopes that are written, or will never be, from the count.
func (n *Network) unbook(address string, count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.lanes[address]; l != nil {
		l.queued = max(0, l.queued-count)
	}
}

// settle waits after the end of a connection until messages may be sent again.
func (n *Network) settle(ctx context.Context, address string) error {
	n.mu.Lock()
	var wait time.Duration
	if l := n.lanes[address]; l != nil {
		wait = time.Until(l.quiet)
	}
	n.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// heardOf handles the library's events about connections. It runs in the library's goroutines.
func (n *Network) heardOf(event any) {
	if e, ok := event.(*remote.EndpointTerminatedEvent); ok {
		n.lost(e.Address)
	}
}

// lost makes the peer at an address suspect, and ends the requests that wait for it.
func (n *Network) lost(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.replacing(address) {
		return
	}
	n.counts.lost.Add(1)
	known, l := false, n.lanes[address]
	for _, p := range n.peers {
		if p.address == address {
			known = true
			if p.suspect.IsZero() {
				p.suspect, p.why = time.Now(), ErrLost.Error()
				if n.cfg.Lost != nil {
					n.cfg.Lost()
				}
			}
		}
	}
	switch {
	case l == nil:
	case known:
		l.queued, l.quiet = 0, time.Now().Add(quietTime)
	default:
		if l.held == nil { // otherwise replace waits for it
			delete(n.lanes, address)
		}
	}
	for _, c := range n.calls {
		if c.address == address {
			c.end(nil, ErrLost)
		}
	}
	n.tell()
}

// replacing reports whether this node replaced the connection that has ended. The caller holds the lock.
func (n *Network) replacing(address string) bool {
	l := n.lanes[address]
	if l == nil || l.replaced == nil {
		return false
	}
	held := l.replaced
	l.replaced = nil
	time.AfterFunc(quietTime, func() { n.release(address, held) })
	return true
}

// dialed wraps one of the library's streams to a peer, which have no deadlines. It gives the greeting and each write a
// deadline, and ends the stream with the network.
func (n *Network) dialed(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(n.ctx, cancel)
	greeting := time.AfterFunc(handshake, cancel)
	end := func() {
		greeting.Stop()
		release()
		cancel()
	}
	s := &outStream{net: n, address: conn.Target(), greeting: greeting, cancel: cancel, end: end, lost: make(chan struct{})}
	var err error
	ctx, s.client, s.secret = n.offer(ctx, s.address)
	if s.ClientStream, err = streamer(ctx, desc, conn, method, opts...); err != nil {
		end()
		return nil, err
	}
	return s, nil
}

// reached records that the peer has accepted a stream.
func (n *Network) reached(s *outStream) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.outbound[s] = struct{}{}
}

// ended removes a stream that is over, and reports whether its replacement was orderly: the peer has read all messages.
// It sets replaced here, because the library reports this end next, and later reports are about other connections.
func (n *Network) ended(s *outStream, err error) (replaced bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.outbound, s)
	if s.held == nil || !errors.Is(err, io.EOF) {
		s.once.Do(func() { close(s.lost) })
		return false
	}
	if l := n.lanes[s.address]; l != nil {
		l.replaced = s.held
	}
	return true
}

// outStream is a stream to a peer. It counts the written envelopes.
type outStream struct {
	grpc.ClientStream
	net      *Network
	address  string
	greeting *time.Timer
	cancel   context.CancelFunc
	end      func()
	client   *proof.Client  // nil: this node knows no secret
	secret   int64          // the secret's number; 0: none is used
	session  *proof.Session // nil: writes have no tags, because the peer runs an older release
	held     chan struct{}  // the lane's held, once this node replaces the stream; the network's lock guards it
	lost     chan struct{}  // closed when the stream has ended in any other way
	once     sync.Once      // closes lost
}

// RecvMsg reads the messages of the peer's library: its greeting, and then nothing until the stream ends.
func (s *outStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.greeting.Stop()
	if err == nil {
		s.net.reached(s)
		return nil
	}
	s.end()
	if s.net.ended(s, err) {
		err = status.Error(codes.Canceled, "replaced") // the library ignores an orderly end
	}
	if status.Code(err) == codes.Unauthenticated {
		_ = s.net.mistrust(s.address, err) // err is returned below
	}
	return err
}

// SendMsg writes one batch.
func (s *outStream) SendMsg(m any) error {
	stuck := time.AfterFunc(sendTime, s.cancel)
	defer stuck.Stop()
	message, _ := m.(*remote.RemoteMessage)
	if err := s.secure(message); err != nil {
		s.end()
		return err
	}
	count := len(message.GetMessageBatch().GetEnvelopes())
	err := s.ClientStream.SendMsg(m)
	if count > 0 {
		s.net.unbook(s.address, count)
	}
	return err
}
