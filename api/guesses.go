package api

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Bounds of wrong tokens at a login.
const (
	guessesMax    = 5
	guessesTime   = time.Minute
	guessersMax   = 4096 // addresses that are remembered
	guesserPrefix = 64   // bits of an IPv6 address that one caller can have all addresses of
)

// guesses bounds how many wrong tokens an address may try in a minute. The zero value can be used.
type guesses struct {
	mu sync.Mutex
	by map[netip.Addr][]time.Time // of the last wrong tokens, oldest first
}

// spend takes one try of an address before the token is checked, so that tries at the same time count too. Otherwise it returns how long the
// address has to wait.
func (g *guesses) spend(from netip.Addr, now time.Time) (wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	tries := recent(g.by[from], now)
	if len(tries) >= guessesMax {
		return tries[0].Add(guessesTime).Sub(now)
	}
	if g.by == nil {
		g.by = map[netip.Addr][]time.Time{}
	}
	if _, known := g.by[from]; !known && len(g.by) >= guessersMax {
		g.forget(now)
	}
	g.by[from] = append(tries, now)
	return 0
}

// refund gives the last try back, because its token was right.
func (g *guesses) refund(from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if tries := g.by[from]; len(tries) > 1 {
		g.by[from] = tries[:len(tries)-1]
	} else {
		delete(g.by, from)
	}
}

// forget makes room for one more address. It removes those whose minute is over, or else the one that has tried least recently.
func (g *guesses) forget(now time.Time) {
	var oldest netip.Addr
	var at time.Time
	for from, tries := range g.by {
		last := tries[len(tries)-1]
		if now.Sub(last) >= guessesTime {
			delete(g.by, from)
		} else if at.IsZero() || last.Before(at) {
			oldest, at = from, last
		}
	}
	if len(g.by) >= guessersMax {
		delete(g.by, oldest)
	}
}

// recent returns the tries of the last minute.
func recent(tries []time.Time, now time.Time) []time.Time {
	for len(tries) > 0 && now.Sub(tries[0]) >= guessesTime {
		tries = tries[1:]
	}
	return tries
}

// guesser returns the address of a connection, without what one caller can vary.
func guesser(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	if addr = addr.Unmap().WithZone(""); addr.Is6() {
		return netip.PrefixFrom(addr, guesserPrefix).Masked().Addr()
	}
	return addr
}
