package peers

import (
	"container/list"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
)

// Bounds on connections of peers that have not proven that they belong to the cluster.
const (
	unprovenMax   = 256             // connections; one more ends the oldest of them
	unprovenTime  = 5 * time.Second // for a proof
	unprovenBytes = 64 << 10        // bytes that are read from one
)

var errStranger = errors.New("the connection has said too much without proving that it belongs to the cluster")

// trackedCredentials wraps the credentials of the server, which may be none. It tracks connections without a proof.
type trackedCredentials struct {
	credentials.TransportCredentials
	unproven *unprovenConns
}

// ServerHandshake implements credentials.TransportCredentials.
func (d trackedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	g := d.unproven.enter(raw)
	conn, info, err := d.TransportCredentials.ServerHandshake(g)
	if err != nil {
		g.leave()
		return nil, nil, err
	}
	return conn, connInfo{info, g}, nil
}

// Clone implements credentials.TransportCredentials.
func (d trackedCredentials) Clone() credentials.TransportCredentials {
	return trackedCredentials{d.TransportCredentials.Clone(), d.unproven}
}

// connInfo passes the connection to the handlers of its streams.
type connInfo struct {
	credentials.AuthInfo
	conn *inConn
}

// connOf returns the connection of a stream.
func connOf(ctx context.Context) *inConn {
	if p, ok := grpcpeer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(connInfo); ok {
			return info.conn
		}
	}
	return nil
}

// unprovenConns is the list of connections without a proof, oldest first.
type unprovenConns struct {
	max     int           // [unprovenMax]
	limit   time.Duration // [unprovenTime]
	mu      sync.Mutex
	waiting list.List      // of *inConn
	expired func(net.Addr) // called for each connection that was ended without a proof
}

func newUnprovenConns(expired func(net.Addr)) *unprovenConns {
	return &unprovenConns{max: unprovenMax, limit: unprovenTime, expired: expired}
}

// enter adds a connection. If there are too many, it ends the oldest.
func (h *unprovenConns) enter(conn net.Conn) *inConn {
	g := &inConn{Conn: conn, unproven: h}
	h.mu.Lock()
	g.place = h.waiting.PushBack(g)
	g.timer = time.AfterFunc(h.limit, g.expire)
	var first *inConn
	if h.waiting.Len() > h.max {
		first = h.waiting.Front().Value.(*inConn)
	}
	h.mu.Unlock()
	if first != nil {
		first.expire()
	}
	return g
}

// count returns the number of connections.
func (h *unprovenConns) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting.Len()
}

// inConn is an incoming connection.
type inConn struct {
	net.Conn
	unproven *unprovenConns
	timer    *time.Timer
	place    *list.Element // nil: not in the list any more; the list's lock guards it
	trusted  atomic.Bool
	read     atomic.Int64
}

// Read implements net.Conn.
func (g *inConn) Read(b []byte) (int, error) {
	count, err := g.Conn.Read(b)
	if !g.trusted.Load() && g.read.Add(int64(count)) > unprovenBytes {
		return 0, errStranger
	}
	return count, err
}

// Close implements net.Conn.
func (g *inConn) Close() error {
	g.leave()
	return g.Conn.Close()
}

// trust records that the peer has proven itself.
func (g *inConn) trust() {
	g.trusted.Store(true)
	g.leave()
}

// leave removes it from the list, and reports whether it was there.
func (g *inConn) leave() bool {
	g.unproven.mu.Lock()
	defer g.unproven.mu.Unlock()
	if g.place == nil {
		return false
	}
	g.unproven.waiting.Remove(g.place)
	g.place = nil
	g.timer.Stop()
	return true
}

// expire ends a connection without a proof, after its time or to make room for a newer one.
func (g *inConn) expire() {
	if g.leave() {
		g.end()
		g.unproven.expired(g.RemoteAddr())
	}
}

// end closes the connection. gRPC notices that.
func (g *inConn) end() { _ = g.Conn.Close() } // closed even after an error
