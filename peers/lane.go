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

// lane is what goes out to one address.
type lane struct {
	seq    uint64    // of the last envelope
	queued int       // envelopes that the library has and has not written
	quiet  time.Time // nothing is sent before it
	// held is closed once what goes out may do so again, while the connection is replaced; nil: it may.
	held chan struct{}
	// replaced is held as it was for a connection that has ended as this node had it, and of whose end the library is about to
	// tell; nil: there is none.
	replaced chan struct{}
}

// Bounds on what goes out. An envelope counts from when the library gets it until it is written, or lost.
const (
	queuedMax = 128                   // envelopes that wait for one address
	lanesMax  = 4 * streamsMax        // addresses
	quietTime = 20 * time.Millisecond // without a word after a connection's end: the library would tear down the next one too
)

// Errors that say that a peer was not asked, or that its answer will not come. The question may be repeated.
var (
	ErrBusy = errors.New("too much waits for the peer")
	ErrLost = errors.New("the connection to the peer was lost")
)

// book counts an envelope that is about to be sent, and numbers it. It waits while the connection is replaced, at most until ctx
// ends: then nothing was counted.
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

// unbook takes back what has been written, or will never be.
func (n *Network) unbook(address string, count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.lanes[address]; l != nil {
		l.queued = max(0, l.queued-count)
	}
}

// settle waits until an address may be spoken to again after its connection ended.
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

// heardOf takes what the library tells of its connections. It runs in the library's goroutines.
func (n *Network) heardOf(event any) {
	if e, ok := event.(*remote.EndpointTerminatedEvent); ok {
		n.lost(e.Address)
	}
}

// lost makes suspect whoever is at an address, and tells those that wait for its answer.
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
			}
		}
	}
	switch {
	case l == nil:
	case known:
		l.queued, l.quiet = 0, time.Now().Add(quietTime)
	default:
		if l.held == nil { // else somebody waits for it
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

// replacing reports whether the end of a connection is that of one which this node has replaced. The caller holds the lock.
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

// dialed bounds one of the library's streams to a peer, which it would leave without a deadline: the greeting and each
// write have theirs, and all end with the network.
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

// reached notes that a stream stands: the peer has let it in.
func (n *Network) reached(s *outStream) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.outbound[s] = struct{}{}
}

// ended forgets a stream that is over, and reports whether it ended as this node had it: the peer has read all that was sent. The
// mark for that is made here, for the library tells of this end next: whatever it tells later is of another connection.
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

// outStream is a stream to a peer that counts what is written.
type outStream struct {
	grpc.ClientStream
	net      *Network
	address  string
	greeting *time.Timer
	cancel   context.CancelFunc
	end      func()
	client   *proof.Client  // nil: this node knows no secret
	secret   int64          // its number; 0: none is in use
	session  *proof.Session // nil: nothing is tagged, for the peer is of an older release
	held     chan struct{}  // of the lane, once this node itself ends the stream; the network's lock guards it
	lost     chan struct{}  // closed when it has ended in any other way
	once     sync.Once      // closes lost
}

// RecvMsg reads what the peer's library says: its greeting, and then nothing until the stream ends.
func (s *outStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.greeting.Stop()
	if err == nil {
		s.net.reached(s)
		return nil
	}
	s.end()
	if s.net.ended(s, err) {
		err = status.Error(codes.Canceled, "replaced") // the library takes no notice of an end in order
	}
	if status.Code(err) == codes.Unauthenticated {
		_ = s.net.mistrust(s.address, err) // it is what is returned
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
