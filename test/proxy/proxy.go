// Package proxy is a TCP proxy on the loopback interface. Tests put it between a client and a server to break the
// network: connections are reset or refused, bytes are dropped in one direction or both, or bytes are delayed. It knows
// no protocol. Its buffers are bounded. Above the bound its clients block, as on a real network.
package proxy

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/servers"
)

// Bounds on what a proxy holds: connections, and for each direction of one the pieces that wait and their size in bytes.
const (
	linksMax  = 1024
	piecesMax = 64
	pieceSize = 16 << 10
	dialMax   = 5 * time.Second
)

// Direction is the direction of the bytes.
type Direction uint8

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// Proxy forwards connections to one address. All methods are safe for concurrent use.
type Proxy struct {
	t        testing.TB
	addr     string
	target   string
	work     sync.WaitGroup
	mu       sync.Mutex
	now      conditions
	listener net.Listener // nil while it is cut or closed
	links    map[*link]bool
}

// conditions is the state of the network.
type conditions struct {
	shut    [2]bool // by direction
	delay   time.Duration
	answer  int           // the answer of the server's at which a connection is broken; 0: none
	stalls  bool          // it is not reset there, but gets no more bytes
	changed chan struct{} // closed when there is another
}

// New starts a proxy for the server at an address. It ends with the test.
func New(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{
		t: t, addr: servers.OwnAddress(), target: target,
		now: conditions{changed: make(chan struct{})}, links: map[*link]bool{},
	}
	p.Heal()
	t.Cleanup(p.Close)
	return p
}

// Addr returns the address on which the proxy listens. It does not change.
func (p *Proxy) Addr() string { return p.addr }

// Cut resets all connections and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	for l := range p.links {
		l.reset()
	}
}

// Blackhole keeps connections open and accepts new ones, but forwards nothing. Bytes that are sent meanwhile arrive
// after Heal, as by retransmission.
func (p *Proxy) Blackhole() { p.change(func(w *conditions) { w.shut = [2]bool{true, true} }) }

// OneWay forwards in one direction only.
func (p *Proxy) OneWay(d Direction) {
	p.change(func(w *conditions) { w.shut = [2]bool{d != ToServer, d != ToClient} })
}

// Delay delays all bytes that are read from now on by d, in each direction.
func (p *Proxy) Delay(d time.Duration) { p.change(func(w *conditions) { w.delay = d }) }

// Break breaks each connection at the server's nth answer, counted from 1. An answer is what the server sends until the client
// sends again. The connection is reset, or stalls: what the server sends from then on arrives after Heal. With the answers of a
// handshake, this breaks connections while they are made, and leaves the older ones alone.
func (p *Proxy) Break(answer int, stalls bool) {
	p.change(func(w *conditions) { w.answer, w.stalls = answer, stalls })
}

// Reset resets all connections, and accepts new ones.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Heal ends every fault.
func (p *Proxy) Heal() {
	p.change(func(w *conditions) { *w = conditions{changed: w.changed} })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Errorf("proxy for %s: %v", p.target, err)
		return
	}
	p.listener = l
	p.work.Go(func() { p.accept(l) })
}

// Close resets all connections and ends the proxy.
func (p *Proxy) Close() {
	p.Cut()
	p.work.Wait()
}

func (p *Proxy) change(f func(*conditions)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.now)
	close(p.now.changed)
	p.now.changed = make(chan struct{})
}

func (p *Proxy) conditions() conditions {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// accept serves a listener until it is closed.
func (p *Proxy) accept(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		l := &link{proxy: p, client: c.(*net.TCPConn), done: make(chan struct{})}
		if !p.admit(listener, l) {
			l.reset()
			continue
		}
		p.work.Go(func() {
			l.run()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.links, l)
		})
	}
}

// admit takes up a connection, unless there are too many or its listener has been cut off meanwhile.
func (p *Proxy) admit(listener net.Listener, l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != listener || len(p.links) >= linksMax {
		return false
	}
	p.links[l] = true
	return true
}
