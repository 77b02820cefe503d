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

// Bounds on those that have connected and have not proven that they belong to the cluster.
const (
	strangersMax = 256             // connections; one more ends the one that has waited for the longest
	strangerTime = 5 * time.Second // for one to prove itself
	strangerMax  = 64 << 10        // bytes that are read of one
)

var errStranger = errors.New("the connection has said too much without proving that it belongs to the cluster")

// door is how gRPC meets those that dial the node: it stands before the credentials, which may be none, and counts who has
// connected and not proven itself.
type door struct {
	credentials.TransportCredentials
	hall *hall
}

// ServerHandshake implements credentials.TransportCredentials.
func (d door) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	g := d.hall.enter(raw)
	conn, info, err := d.TransportCredentials.ServerHandshake(g)
	if err != nil {
		g.leave()
		return nil, nil, err
	}
	return conn, guestInfo{info, g}, nil
}

// Clone implements credentials.TransportCredentials.
func (d door) Clone() credentials.TransportCredentials {
	return door{d.TransportCredentials.Clone(), d.hall}
}

// guestInfo names the connection to those that handle its streams.
type guestInfo struct {
	credentials.AuthInfo
	guest *guest
}

// guestOf is the connection of a stream.
func guestOf(ctx context.Context) *guest {
	if p, ok := grpcpeer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(guestInfo); ok {
			return info.guest
		}
	}
	return nil
}

// hall is where those wait that have not proven themselves, in the order in which they came.
type hall struct {
	max     int           // [strangersMax]
	limit   time.Duration // [strangerTime]
	mu      sync.Mutex
	waiting list.List      // of *guest
	expired func(net.Addr) // told of each that has not proven itself in time
}

func newHall(expired func(net.Addr)) *hall {
	return &hall{max: strangersMax, limit: strangerTime, expired: expired}
}

// enter takes a connection in, and where too many wait ends the one that came first.
func (h *hall) enter(conn net.Conn) *guest {
	g := &guest{Conn: conn, hall: h}
	h.mu.Lock()
	g.place = h.waiting.PushBack(g)
	g.timer = time.AfterFunc(h.limit, g.expire)
	var first *guest
	if h.waiting.Len() > h.max {
		first = h.waiting.Front().Value.(*guest)
	}
	h.mu.Unlock()
	if first != nil {
		first.expire()
	}
	return g
}

// count is how many wait.
func (h *hall) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting.Len()
}

// guest is a connection from outside.
type guest struct {
	net.Conn
	hall    *hall
	timer   *time.Timer
	place   *list.Element // nil: it waits no more; the hall's lock guards it
	trusted atomic.Bool
	read    atomic.Int64
}

// Read implements net.Conn.
func (g *guest) Read(b []byte) (int, error) {
	count, err := g.Conn.Read(b)
	if !g.trusted.Load() && g.read.Add(int64(count)) > strangerMax {
		return 0, errStranger
	}
	return count, err
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.leave()
	return g.Conn.Close()
}

// trust says that who is at the other end has proven itself.
func (g *guest) trust() {
	g.trusted.Store(true)
	g.leave()
}

// leave takes it out of the hall, and reports whether it waited there.
func (g *guest) leave() bool {
	g.hall.mu.Lock()
	defer g.hall.mu.Unlock()
	if g.place == nil {
		return false
	}
	g.hall.waiting.Remove(g.place)
	g.place = nil
	g.timer.Stop()
	return true
}

// expire ends a connection that has not proven itself in time, or for one that came later.
func (g *guest) expire() {
	if g.leave() {
		g.end()
		g.hall.expired(g.RemoteAddr())
	}
}

// end ends the connection; what gRPC has of it ends by that.
func (g *guest) end() { _ = g.Conn.Close() } // it is over whatever it says
