package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// link is one client's connection with the one to the server behind it.
type link struct {
	proxy  *Proxy
	client *net.TCPConn

	mu      sync.Mutex
	server  *net.TCPConn // nil until it has been dialled
	ended   bool
	asked   bool // the client has sent since the server's last answer
	answers int
	done    chan struct{} // closed with ended
}

// piece is bytes on their way; none: the sender has ended its side.
type piece struct {
	bytes []byte
	due   time.Time
}

// run forwards until both sides have ended or one is reset.
func (l *link) run() {
	if !l.pass(ToServer) || !l.dial() {
		l.reset()
		return
	}
	var work sync.WaitGroup
	l.forward(&work, ToServer, l.client, l.server)
	l.forward(&work, ToClient, l.server, l.client)
	work.Wait()
	l.end((*net.TCPConn).Close) // what was written is still sent
}

// reset ends both connections at once, and both peers see it.
func (l *link) reset() { l.end(abort) }

func (l *link) end(how func(*net.TCPConn) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	close(l.done)
	_ = how(l.client) // a connection that is dead already is as good
	if l.server != nil {
		_ = how(l.server)
	}
}

// abort closes a connection by a reset.
func abort(c *net.TCPConn) error {
	if err := c.SetLinger(0); err != nil {
		return err
	}
	return c.Close()
}

func (l *link) dial() bool {
	c, err := net.DialTimeout("tcp", l.proxy.target, dialMax)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = abort(c.(*net.TCPConn)) // nothing went over it
		return false
	}
	l.server = c.(*net.TCPConn)
	return true
}

// pass waits until bytes may go in the direction; false: the link has ended.
func (l *link) pass(d Direction) bool {
	for {
		now := l.proxy.conditions()
		if !now.shut[d] {
			return true
		}
		select {
		case <-now.changed:
		case <-l.done:
			return false
		}
	}
}

// forward carries bytes in one direction: one goroutine reads and one writes, so that a delay slows nothing down.
func (l *link) forward(work *sync.WaitGroup, d Direction, from, to *net.TCPConn) {
	pieces := make(chan piece, piecesMax)
	work.Go(func() {
		defer close(pieces)
		l.read(d, from, pieces)
	})
	work.Go(func() { l.write(d, to, pieces) })
}

func (l *link) read(d Direction, from *net.TCPConn, pieces chan<- piece) {
	for {
		bytes := make([]byte, pieceSize)
		n, err := from.Read(bytes)
		if err != nil && !errors.Is(err, io.EOF) {
			l.reset()
			return
		}
		if n > 0 && !l.heard(d) {
			l.reset()
			return
		}
		select {
		case pieces <- piece{bytes[:n], time.Now().Add(l.proxy.conditions().delay)}:
		case <-l.done:
			return
		}
		if err != nil {
			return
		}
	}
}

// heard counts the server's answers; false: the link is broken at this one. It waits while the link stalls.
func (l *link) heard(d Direction) bool {
	l.mu.Lock()
	switch {
	case d == ToServer:
		l.asked = true
	case l.asked:
		l.asked = false
		l.answers++
	}
	answers := l.answers
	l.mu.Unlock()
	for {
		now := l.proxy.conditions()
		if d == ToServer || now.answer == 0 || now.answer != answers {
			return true
		}
		if !now.stalls {
			return false
		}
		select {
		case <-now.changed:
		case <-l.done:
			return false
		}
	}
}

func (l *link) write(d Direction, to *net.TCPConn, pieces <-chan piece) {
	for p := range pieces {
		if !l.wait(time.Until(p.due)) || !l.pass(d) {
			continue // the reader ends too, and closes the channel
		}
		if _, err := to.Write(p.bytes); err != nil {
			l.reset()
		}
		if len(p.bytes) == 0 {
			_ = to.CloseWrite() // fails only where the link has ended
		}
	}
}

// wait lets time pass; false: the link has ended.
func (l *link) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.done:
		return false
	}
}
