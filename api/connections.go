package api

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/rules/throttle"
)

// Connections bounds the HTTP server's connections. Zero means default.
type Connections struct {
	// Max is the maximum of all connections, at most half of the process's limit on descriptors. PeerMax is the maximum
	// of one address, at most three quarters of Max.
	Max     int `yaml:"connections" range:"8..1000000" help:"HTTP connections, at most half of the files that the process may have open. Above it, the connection that has been idle for longest is closed."`
	PeerMax int `yaml:"connections_per_address" range:"1..1000000" help:"HTTP connections from one address, at most three quarters of all."`
}

// Default bounds of connections, and the delays between failed accepts.
const (
	connectionsMax     = 8192
	connectionsPeerMax = 4096
	acceptAgain        = 5 * time.Millisecond // doubled each time
	acceptAgainMax     = time.Second
)

// DefaultConnections are the bounds where none is set.
func DefaultConnections() Connections {
	return Connections{Max: connectionsMax, PeerMax: connectionsPeerMax}
}

// within returns the bounds in a process with that limit on descriptors; 0: no limit.
func (c Connections) within(descriptors uint64) Connections {
	if c.Max <= 0 {
		c.Max = connectionsMax
	}
	if c.PeerMax <= 0 {
		c.PeerMax = connectionsPeerMax
	}
	if descriptors > 0 && uint64(c.Max) > descriptors/2 {
		c.Max = max(1, int(descriptors/2))
	}
	c.PeerMax = min(c.PeerMax, max(1, c.Max-c.Max/4))
	return c
}

// descriptors returns this process's limit on open files and sockets; 0: not known.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Cur
}

// Bound bounds the connections of a server and returns the listener to serve. It sets the server's ConnState and
// ConnContext. When there is one connection too many, it closes the one that has been idle longest, of the same address
// if that address has too many. A connection is idle while no call of it is in work: also before its request has
// arrived, its caller is known, and its body has arrived. If none is idle, the new connection is closed. A failed
// accept is logged as a warning and repeated.
func Bound(server *http.Server, listener net.Listener, limits Connections, logger hclog.Logger) net.Listener {
	t := &connTable{
		Connections: limits.within(descriptors()), logger: logger.Named("http"),
		of: map[net.Conn]*connection{}, peers: map[netip.Addr]*peerCount{},
	}
	server.ConnContext = t.opened
	server.ConnState = t.changed
	return &accepting{Listener: listener, table: t, closed: make(chan struct{})}
}

// connTable holds the open connections.
type connTable struct {
	Connections
	logger hclog.Logger

	mu    sync.Mutex
	of    map[net.Conn]*connection
	peers map[netip.Addr]*peerCount
	idle  list.List // of *connection, the longest idle first
	// serving is the number of connections that are not idle.
	serving int
	warns   throttle.Gate
}

// peerCount counts the connections of one address.
type peerCount struct{ open, serving int }

// connection is one connection. Its table guards the fields.
type connection struct {
	table *connTable
	conn  net.Conn
	peer  netip.Addr
	count *peerCount
	idle  *list.Element // nil while a call is in work
}

type connectionKey struct{}

// opened registers a new connection. The server calls it before it reads anything.
func (t *connTable) opened(ctx context.Context, conn net.Conn) context.Context {
	c := &connection{table: t, conn: conn, peer: peerOf(conn)}
	t.mu.Lock()
	closes := t.victim(c.peer)
	full := closes == nil && (len(t.of) >= t.Max || t.openOf(c.peer) >= t.PeerMax)
	if closes != nil {
		t.remove(closes)
	}
	if !full {
		t.add(c)
	}
	t.mu.Unlock()
	if closes != nil {
		_ = shut(closes.conn)
	}
	if full {
		t.refuse(c)
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// victim returns the connection to close for a new one of the peer; nil: none is needed, or none is idle.
func (t *connTable) victim(peer netip.Addr) *connection {
	switch {
	case t.openOf(peer) >= t.PeerMax:
		for e := t.idle.Front(); e != nil; e = e.Next() {
			if c := e.Value.(*connection); c.peer == peer {
				return c
			}
		}
	case len(t.of) >= t.Max && t.idle.Len() > 0:
		return t.idle.Front().Value.(*connection)
	}
	return nil
}

func (t *connTable) openOf(peer netip.Addr) int {
	if count := t.peers[peer]; count != nil {
		return count.open
	}
	return 0
}

// refuse closes a connection that was not registered.
func (t *connTable) refuse(c *connection) {
	_ = shut(c.conn)
	t.mu.Lock()
	defer t.mu.Unlock()
	if pass, withheld := t.warns.Pass(time.Now()); pass {
		t.logger.Warn("connection refused: there are too many, and none of them is idle", append(throttle.LeftOut(withheld),
			"peer", c.peer, "open_of_peer", t.openOf(c.peer), "max_of_peer", t.PeerMax, "open", len(t.of), "max", t.Max)...)
	}
}

func (t *connTable) add(c *connection) {
	c.count = t.peers[c.peer]
	if c.count == nil {
		c.count = &peerCount{}
		t.peers[c.peer] = c.count
	}
	c.count.open++
	t.of[c.conn] = c
	c.idle = t.idle.PushBack(c)
}

// remove removes a connection.
func (t *connTable) remove(c *connection) {
	if t.of[c.conn] != c {
		return
	}
	t.rest(c)
	t.idle.Remove(c.idle)
	c.idle = nil
	delete(t.of, c.conn)
	if c.count.open--; c.count.open == 0 {
		delete(t.peers, c.peer)
	}
}

// rest makes a connection the newest idle one.
func (t *connTable) rest(c *connection) {
	if c.idle != nil {
		t.idle.MoveToBack(c.idle)
		return
	}
	c.count.serving--
	t.serving--
	c.idle = t.idle.PushBack(c)
}

// changed handles a change of a connection's state. After an answered request the connection is the newest idle one.
func (t *connTable) changed(conn net.Conn, state http.ConnState) {
	if state != http.StateIdle && state != http.StateClosed && state != http.StateHijacked {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of[conn]
	switch {
	case c == nil:
	case state == http.StateIdle:
		t.rest(c)
	default:
		t.remove(c)
	}
}

// serving marks the connection as having a call in work, until the server reports it idle. Meanwhile it is not closed
// for another one, unless nearly all connections are in work: some must stay free for health checks.
func serving(ctx context.Context) {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return
	}
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.idle == nil || t.of[c.conn] != c || t.serving >= t.Max-t.Max/8-1 || c.count.serving >= t.PeerMax-t.PeerMax/8-1 {
		return
	}
	t.idle.Remove(c.idle)
	c.idle = nil
	c.count.serving++
	t.serving++
}

// closeOldest closes the connection that has been idle longest, to free its descriptor.
func (t *connTable) closeOldest() {
	t.mu.Lock()
	var c *connection
	if e := t.idle.Front(); e != nil {
		c = e.Value.(*connection)
		t.remove(c)
	}
	t.mu.Unlock()
	if c != nil {
		_ = shut(c.conn)
	}
}

// shut closes a connection at once. A TLS close would send an alert first, and wait for a peer that does not read.
func shut(conn net.Conn) error {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	return conn.Close()
}

// peerOf returns the address of a connection's peer. For IPv6 it returns the /64 network, which belongs to one site.
// Connections without an address count as one peer.
func peerOf(conn net.Conn) netip.Addr {
	if conn.RemoteAddr() == nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	peer := addr.Addr().Unmap().WithZone("")
	if network, err := peer.Prefix(64); err == nil && peer.Is6() {
		return network.Addr()
	}
	return peer
}

// accepting is a listener whose Accept fails only once it is closed.
type accepting struct {
	net.Listener
	table  *connTable
	once   sync.Once
	closed chan struct{}
	warns  throttle.Gate
}

// Accept implements net.Listener.
func (a *accepting) Accept() (net.Conn, error) {
	for pause := acceptAgain; ; pause = min(2*pause, acceptAgainMax) {
		conn, err := a.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		if pass, withheld := a.warns.Pass(time.Now()); pass {
			a.table.logger.Warn("no connection can be accepted for now", append(throttle.LeftOut(withheld), "error", err)...)
		}
		a.table.closeOldest() // usually descriptors are missing
		select {
		case <-a.closed:
			return nil, net.ErrClosed
		case <-time.After(pause):
		}
	}
}

// Close implements net.Listener.
func (a *accepting) Close() error {
	a.once.Do(func() { close(a.closed) })
	return a.Listener.Close()
}
