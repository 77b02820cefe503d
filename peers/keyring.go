package peers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-run/troupe/store"
)

// Source is what the network asks the store for.
type Source interface {
	// ClusterSecrets returns the secrets that are accepted, as store.ClusterSecrets has them.
	ClusterSecrets(ctx context.Context) ([]store.ClusterSecret, error)
	// ListNodes returns every known incarnation.
	ListNodes(ctx context.Context) ([]store.Node, error)
}

// How often the secrets are read: from time to time; and when somebody means one that is not known here, or refuses this node's, no
// sooner than rereadLeast after the last time, however many do.
const (
	rereadEvery = 10 * time.Second
	rereadLeast = time.Second
	readTime    = 2 * time.Second // for one question to the store
	renewEvery  = time.Second     // between two looks for connections whose secret is no longer the current one
)

// keyring is the cluster's secrets as the store had them when it was last asked.
type keyring struct {
	source  Source
	reading sync.Mutex // held by who asks
	again   time.Time  // when somebody meant last what was not known here; reading guards it
	failed  error      // of the question that was asked then; reading guards it

	mu    sync.Mutex
	held  []heldSecret
	asked time.Time // zero: never
}

type heldSecret struct {
	store.ClusterSecret
	until time.Time // that it is accepted; zero: it is the current one
}

// due reports whether the store was not asked within the time before.
func (k *keyring) due(every time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.asked) >= every
}

// reread asks the store, rereadLeast after it was asked so the last time: who comes before that waits, and all who wait share one
// answer. So strangers who mean what nobody knows do not keep a peer from being believed after a rotation.
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

// read asks the store.
func (k *keyring) read(ctx context.Context) error {
	k.reading.Lock()
	defer k.reading.Unlock()
	return k.ask(ctx)
}

// ask is read for one who holds reading. It goes on though ctx ends: that may be a stranger's, and others wait for the answer.
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
		k.asked = asked.Add(readTime - rereadEvery) // it is asked again after readTime
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

// current is the secret that this node proves with; false: it knows none.
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

// accepted is the secret of a number; false: it is not accepted here.
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

// find is accepted, which asks the store where the number is not known.
func (k *keyring) find(ctx context.Context, id int64) (store.ClusterSecret, bool) {
	secret, ok := k.accepted(id)
	if !ok && k.reread(ctx) == nil {
		secret, ok = k.accepted(id)
	}
	return secret, ok
}

// Belong makes the node one of the cluster whose secrets and nodes the source knows. Until then it believes nobody, and is believed
// by nobody. It is called once; after an error it may be called again.
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

// keepSecrets reads the secrets from time to time, and has connections begin anew whose secret is no longer the current one.
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

// renew ends the connections whose secret is accepted no more, and replaces those to peers that were made with another secret than
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
			over = append(over, g.guest.end)
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

// How long what goes to a peer waits while its connection is replaced: until the library has written what it had, else it is tried
// again at the next look; and then until the peer has read it.
const (
	writtenTime = 2 * time.Second
	closedTime  = 5 * time.Second
)

// replace has a connection to a peer made anew, and loses nothing by it: what goes there waits, what was sent is read by the peer
// before the connection ends, and answers come over the other one. Who has not read it within closedTime loses what it has
// not read; that, and an end of the connection that comes before, is told as every loss.
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
	_ = s.CloseSend() // where it fails the stream has ended
	select {
	case <-held:
		return
	case <-s.lost:
	case <-limit.C:
		s.cancel()
	}
	time.Sleep(quietTime) // the library tells of its end now, and would tear down the next one too
}

// release lets go out what waits for an address since it was held.
func (n *Network) release(address string, held chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.lanes[address]; l != nil && l.held == held && held != nil {
		close(held)
		l.held = nil
	}
}
