package peers

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/troupe-run/troupe/messages"
)

// Refuses returns those of the incarnations at whose address nothing listens: the machine there answers, and refuses the connection.
// An address that accepts, does not answer, cannot be reached or is not known is none of them; nor is one of whose addresses, where
// its name has several, only some refuse.
func (n *Network) Refuses(ctx context.Context, all []messages.Incarnation) []messages.Incarnation {
	var (
		mu      sync.Mutex
		refused []messages.Incarnation
		asked   sync.WaitGroup
	)
	for _, inc := range all {
		address, err := n.addressOf(inc)
		if err != nil {
			continue
		}
		asked.Go(func() {
			defer n.survive("refuses")
			if refuses(ctx, address) {
				mu.Lock()
				defer mu.Unlock()
				refused = append(refused, inc)
			}
		})
	}
	asked.Wait()
	return slices.Clip(refused)
}

// addressesMax bounds the addresses of one name that are asked; a name with more is none that refuses.
const addressesMax = 8

// refuses reports whether every address of a host and port refuses a connection.
func refuses(ctx context.Context, address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return false
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(ips) == 0 || len(ips) > addressesMax {
		return false
	}
	var d net.Dialer
	for _, ip := range ips {
		c, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(ip.Unmap(), uint16(number)).String())
		if err == nil {
			_ = c.Close() // nothing was sent
			return false
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return false
		}
	}
	return true
}
