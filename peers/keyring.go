package peers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-run/troupe/store"
)

// Source is the network's port to the store.
type Source interface {
	// ClusterSecrets returns the accepted secrets, see store.ClusterSecrets.
	ClusterSecrets(ctx context.Context) ([]store.ClusterSecret, error)
	// ListNodes returns every known incarnation.
	ListNodes(ctx context.Context) ([]store.Node, error)
}

// How often the secrets are read. They are read periodically. They are also read when a peer uses an unknown secret or
// refuses this node's, but no sooner than rereadLeast after the last time.
const (
	rereadEvery = 10 * time.Second
	rereadLeast = time.Second
	readTime    = 2 * time.Second // for one read from the store
	renewEvery  = time.Second     // between two searches for connections with an old secret
)

// keyring holds the cluster's secrets as of the last read from the store.
type keyring struct {
	source  Source
	reading sync.Mutex // held during a read
	again   time.Time  // time of the last reread; reading guards it
	failed  error      // error of that reread; reading guards it

	mu    sync.Mutex
	held  []heldSecret
	asked time.Time // zero: never
}

type heldSecret struct {
	store.ClusterSecret
	until time.Time // end of its acceptance; zero: the current secret
}

// due reports whether the last read is at least that long ago.
func (k *keyring) due(every time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.asked) >= every
}

// reread reads the secrets, but no sooner than rereadLeast after the last reread. Earlier callers wait, and all waiting
// callers share one read. So connections with unknown secrets cannot keep a peer from being accepted after a rotation.
func (k *keyring) reread(ctx context.Context) error {
	came := time.Now()
	k.reading.Lock()
	defer k.reading.Unlock()
	if k.again.After(came) {
		return k.failed
	}
	timer := time.NewTimer(rereadLeast - time.Since(k.again))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	k.again = time.Now()
	k.failed = k.ask(ctx)
	return k.failed
}

// read reads the secrets from the store.
func (k *keyring) read(ctx context.Context) error {
	k.reading.Lock()
	defer k.reading.Unlock()
	return k.ask(ctx)
}

// ask is read for a caller that holds reading. It goes on after the end of ctx, because other callers wait for the
// answer.
func (k *keyring) ask(ctx context.Context) error {
	asked := time.Now()
	k.mu.Lock()
	k.asked = asked
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime)
	defer cancel()
	all, err := k.source.ClusterSecrets(ctx)
	if err != nil {
		k.mu.Lock()
		k.asked = asked.Add(readTime - rereadEvery) // the next read is due after readTime
		k.mu.Unlock()
		return fmt.Errorf("read the cluster's secrets: %w", err)
	}
	held := make([]heldSecret, len(all))
	for i, secret := range all {
		held[i].ClusterSecret = secret
		if !secret.Current {
			held[i].until = asked.Add(secret.Left)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = held
	return nil
}

// current returns the secret for this node's proofs; false: it knows none.
func (k *keyring) current() (store.ClusterSecret, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.held {
		if k.held[i].Current {
			return k.held[i].ClusterSecret, true
		}
	}
	return store.ClusterSecret{}, false
}

// accepted returns the secret with a number; false: it is not accepted.
func (k *keyring) accepted(id int64) (store.ClusterSecret, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.held {
		if h := &k.held[i]; h.ID == id && (h.Current || time.Now().Before(h.until)) {
			return h.ClusterSecret, true
		}
	}
	return store.ClusterSecret{}, false
}

// find is accepted that reads the store if the number is not known.
func (k *keyring) find(ctx context.Context, id int64) (store.ClusterSecret, bool) {
	secret, ok := k.accepted(id)
	if !ok && k.reread(ctx) == nil {
		secret, ok = k.accepted(id)
	}
	return secret, ok
}

// Belong makes the node a member of the cluster of the source. Until then, it accepts no peer, and no peer accepts it.
// Call it once. After an error it may be called again.
func (n *Network) Belong(ctx context.Context, source Source) error {
	k := &keyring{source: source}
	if err := k.read(ctx); err != nil {
		return err
	}
	n.register.use(source)
	if n.keys.CompareAndSwap(nil, k) {
		n.beside(func() { n.keepSecrets(k) })
	}
	return nil
}

// keepSecrets reads the secrets periodically, and replaces connections with an old secret.
func (n *Network) keepSecrets(k *keyring) {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	current, _ := k.current()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-ticker.C:
		}
		if k.due(rereadEvery) {
			if err := k.read(n.ctx); err != nil && n.ctx.Err() == nil {
				n.complain(&n.tellsUnread, "secrets of the cluster not read; those that are known are used", "error", err)
			}
		}
		n.renew(k)
		if next, ok := k.current(); ok && next.ID != current.ID {
			n.cfg.Logger.Info("the cluster has another secret; connections to peers are made anew", "number", next.ID, "by", next.By)
			current = next
		}
	}
}

// renew ends incoming connections whose secret is not accepted any more, and replaces outgoing ones whose secret is not
// the current one.
func (n *Network) renew(k *keyring) {
	current, _ := k.current()
	accepted := func(id int64) bool { _, ok := k.accepted(id); return ok }
	n.mu.Lock()
	var over []func()
	old := map[*outStream]chan struct{}{}
	for s := range n.outbound {
		l := n.lanes[s.address]
		switch {
		case s.secret == current.ID || s.secret == 0:
		case l == nil || !accepted(s.secret):
			over = append(over, s.cancel)
		case l.held == nil:
			l.held = make(chan struct{})
			old[s] = l.held
		}
	}
	for g := range n.inbound {
		if g.server != nil && !accepted(g.server.Secret()) {
			over = append(over, g.conn.end)
		}
	}
	n.mu.Unlock()
	for _, end := range over {
		end()
	}
	for s, held := range old {
		if !n.beside(func() { n.replace(s, held) }) {
			n.release(s.address, held)
		}
	}
}

// How long messages wait while a connection is replaced. First the library must write its queue; after writtenTime the
// replacement is tried again later. Then the peer must read the messages, within closedTime.
const (
	writtenTime = 2 * time.Second
	closedTime  = 5 * time.Second
)

// replace replaces a connection to a peer without loss: new messages wait, the peer reads all sent messages before the
// connection ends, and answers use the other connection. A peer that has not read them within closedTime loses the
// rest. That loss, and an earlier end of the connection, are reported like any loss.
func (n *Network) replace(s *outStream, held chan struct{}) {
	defer n.release(s.address, held)
	limit := time.NewTimer(writtenTime)
	defer limit.Stop()
	for written := false; !written; {
		select {
		case <-time.After(time.Millisecond):
			n.mu.Lock()
			l := n.lanes[s.address]
			if written = l == nil || l.queued == 0; written {
				s.held = held
			}
			n.mu.Unlock()
		case <-limit.C:
			return
		}
	}
	limit.Reset(closedTime)
	_ = s.CloseSend() // if it fails, the stream has ended
	select {
	case <-held:
		return
	case <-s.lost:
	case <-limit.C:
		s.cancel()
	}
	time.Sleep(quietTime) // the library reports the end now, and would also end the next connection
}

// release ends the wait of messages for an address.
func (n *Network) release(address string, held chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.lanes[address]; l != nil && l.held == held && held != nil {
		close(held)
		l.held = nil
	}
}
