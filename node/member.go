package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// member is what the node knows of its own life among others.
type member struct {
	base    time.Time    // that the machine's clock counts from
	nodes   []store.Node // that lived when this one joined
	machine *membership.Machine
	lease   *actors.Lease
	granted atomic.Pointer[actors.Lease] // lease, for those that ask from outside, perhaps before there is one
	leases  bool                         // the store evaluates them
	label   string                       // the node's name in the ids of its workers
	fenced  atomic.Pointer[string]
	over    context.Context // ends when it is fenced, or its tree has stopped
	end     context.CancelFunc
	mu      sync.Mutex
	down    []*supervisor.NodeDown              // told so far, for pools that start later
	up      map[messages.Incarnation]store.Node // the others that live, with their rows as they were when they came up
	// before says how the incarnation before this one ended in this process; empty: there was none.
	before string
}

// downMax bounds the ended incarnations that a pool which starts later is told of; earlier ones are dead in the store.
const downMax = 100

// errDiedStarting says that an incarnation was declared dead before it had started: only another can start.
var errDiedStarting = errors.New("the node was declared dead while it started")

// died marks what a store says of a dead incarnation.
func died(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %w", errDiedStarting, err)
	}
	return err
}

// join makes this incarnation known and learns who else lives, so that its name, its lease and its guardian are settled
// before the tree starts. It may be repeated.
func (n *Node) join(ctx context.Context) error {
	now, err := n.store.Now(ctx)
	if err != nil {
		return err
	}
	address, scope := n.PeerAddress()
	err = n.store.Join(ctx, store.Node{
		Incarnation: n.incarnation, Name: n.cfg.Name, Version: n.cfg.Version, State: store.NodeActive,
		StartedAt: now, BeatAt: now, Address: n.Addr(), PeerAddress: address, PeerScope: scope,
		PeerProof: n.network.proof(),
	}, n.cfg.Lease)
	if err != nil {
		return died(err)
	}
	if err := n.warnOfClock(ctx, now); err != nil {
		return err
	}
	asked := time.Now()
	pulse, err := n.store.Beat(ctx, n.incarnation, n.cfg.Lease)
	if err != nil {
		return died(err)
	}
	n.settle(asked, pulse)
	return n.openGuardian()
}

// clockSlack is how far behind an earlier boot the store's clock may stand before that is worth a word.
const clockSlack = time.Second

// warnOfClock says where the store's clock stands before the last beat of an earlier boot: the machine's clock was set
// back in between. What that boot left waiting is due by its own times, so it may wait until the clock has caught up.
func (n *Node) warnOfClock(ctx context.Context, now time.Time) error {
	nodes, err := n.store.ListNodes(ctx)
	if err != nil {
		return err
	}
	var last time.Time
	for i := range nodes {
		if at := nodes[i].BeatAt; at.After(last) {
			last = at
		}
	}
	if behind := last.Sub(now); behind > clockSlack {
		n.logger.Warn("the clock was set back since an earlier boot; what it left waiting is due once the clock has caught up",
			"clock", now, "last_beat", last, "behind", behind)
	}
	return nil
}

// settle keeps what the renewal showed with which the node joined, and that was asked for at asked.
func (n *Node) settle(asked time.Time, p store.Pulse) {
	m, joined := &n.member, supervisor.Joined(n.incarnation, p)
	m.base, m.nodes, m.leases, m.label = asked, p.Nodes, joined.Leases, n.labelAmong(p)
	m.mu.Lock() // whoever looks at the tree of a node that starts reads it already
	m.up = map[messages.Incarnation]store.Node{}
	m.mu.Unlock()
	m.lease = actors.NewLease(!m.leases)
	m.lease.Steady(asked, n.cfg.Lease)
	m.lease.Grant(asked, n.cfg.Lease)
	m.granted.Store(m.lease)
	beat := n.cfg.HeartbeatInterval // for people to see; a store that one node alone uses asks for no more
	if m.leases {
		beat = n.cfg.BeatEvery
	}
	m.machine = membership.New(membership.Config{Lease: n.cfg.Lease, Beat: beat, Grace: n.cfg.OutageGrace}, joined)
}

// labelAmong is the node's name in worker ids: with the incarnation's short form where another node of the name lives. One
// that was killed holds its lease for some seconds, while its connection is gone at once: a node that is started again
// keeps the ids of its workers. An id is a name for people; rows, claims and queues go by the incarnation, so a living
// node that has lost its connection at that moment is only harder to tell apart.
func (n *Node) labelAmong(p store.Pulse) string {
	for i := range p.Nodes {
		other := &p.Nodes[i]
		if other.Name == n.cfg.Name && other.Incarnation != n.incarnation && other.LeaseUntil.After(p.At) && other.Present {
			label := n.cfg.Name + "@" + n.incarnation.Short()
			n.logger.Warn("another live node has this one's name; worker ids carry the incarnation", "node", n.cfg.Name,
				"other", other.Incarnation, "label", label)
			return label
		}
	}
	return n.cfg.Name
}

// openGuardian makes the launcher of this incarnation's processes. Where leases are evaluated they end with the lease.
func (n *Node) openGuardian() (err error) {
	cfg := process.Config{Incarnation: n.incarnation, Ledger: n.cfg.ledgerPath(), Logger: n.logger.Named("guardian")}
	if n.member.leases {
		cfg.Lease = n.cfg.Lease
	}
	n.guardian, err = process.NewGuardian(cfg)
	return err
}

func (n *Node) memberSpec() actors.Child {
	m := &n.member
	return supervisor.NewMember(supervisor.MemberConfig{
		System: n.system, Store: n.store, Incarnation: n.incarnation, LeaseTime: n.cfg.Lease, Machine: m.machine, Base: m.base,
		Nodes: m.nodes, Lease: m.lease, Root: n.system.PID("troupe"), Tell: n.tell, GoOn: n.guardian.Renew,
		Heartbeats: n.heartbeat, Rescue: n.rescueOrphans, Peers: n.network.ask(), Saw: n.operator.Directory.Saw, Logger: n.logger.Named("membership"),
	})
}

// tell passes membership's news to every pool, and to what else in the node looks at the store.
func (n *Node) tell(message any) {
	n.network.tell(message)
	switch news := message.(type) {
	case *supervisor.NodeUp:
		n.member.mu.Lock()
		n.member.up[news.Node.Incarnation] = news.Node
		n.member.mu.Unlock()
	case *supervisor.NodeDown:
		n.member.mu.Lock()
		delete(n.member.up, news.Node.Incarnation)
		n.member.down = append(n.member.down, news)
		if over := len(n.member.down) - downMax; over > 0 {
			n.member.down = n.member.down[over:]
		}
		n.member.mu.Unlock()
	case *supervisor.StoreStands:
		n.servers.Suspect()
	}
	n.pools.TellAll(message)
	if _, down := message.(*supervisor.NodeDown); down {
		n.routing.lookForRouters()
		n.bridges.lookAround()
	}
}

// Others counts the other incarnations that live.
func (m *member) Others() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.up)
}

// NameOf implements operate.Members.
func (m *member) NameOf(inc messages.Incarnation) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.up[inc].Name
}

// Over implements operate.Members.
func (m *member) Over() context.Context { return m.over }

// Unrenewed implements operate.Members.
func (m *member) Unrenewed() string {
	if lease := m.granted.Load(); lease != nil && !lease.Fresh() && m.leases {
		return "this node does not renew its lease: the store is not seen from here"
	}
	return ""
}

// tellDown tells a pool that has just started of the incarnations that have ended.
func (n *Node) tellDown(pool *actor.PID) {
	n.member.mu.Lock()
	defer n.member.mu.Unlock()
	for _, news := range n.member.down {
		n.system.Send(pool, news)
	}
}

// fence gives this incarnation up, because others may have taken it for dead. Whoever runs the node stops it, which for a
// fenced one means at once, and starts a new incarnation; see Keeper.
func (n *Node) fence(why string) {
	text := "fenced: " + why
	if !n.member.fenced.CompareAndSwap(nil, &text) {
		return
	}
	n.phase.open.Store(false)
	n.member.end()
	n.logger.Error(text+"; all work is stopped, and the node comes back as a new incarnation", "node", n.cfg.Name,
		"incarnation", n.incarnation)
	if n.cfg.Fenced != nil {
		go n.cfg.Fenced(text)
		return
	}
	n.fatal(errors.New(text))
}

// untilOver is ctx, ended early where the node is fenced, or when its tree has stopped.
func (n *Node) untilOver(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(n.member.over, cancel)
	return ctx, func() {
		release()
		cancel()
	}
}

// isFenced reports whether the node has given itself up, and why.
func (n *Node) isFenced() (string, bool) {
	if text := n.member.fenced.Load(); text != nil {
		return *text, true
	}
	return "", false
}

// stopFenced ends all work of a fenced node: no ladder but its last rung, and no writes but those under way. What its
// processes would have said finds nobody.
func (n *Node) stopFenced() error {
	if _, fenced := n.isFenced(); !fenced {
		return nil
	}
	err := n.stopTree()
	if n.guardian != nil {
		err = errors.Join(err, n.guardian.Close())
	}
	return err
}

func (n *Node) observerSpec() actors.Child {
	return actors.NewObserver(actors.ObserverConfig{System: n.system, Logger: n.logger.Named("observer")})
}

// membershipNotes are what /readyz says of the node's life, and of its actors'.
func (n *Node) membershipNotes() (waits, notes []string) {
	if text, fenced := n.isFenced(); fenced {
		waits = append(waits, text+"; the node comes back as a new incarnation")
	}
	if n.member.before != "" {
		notes = append(notes, "the incarnation before this one was "+n.member.before)
	}
	if info, ok := n.system.Registry.Get("troupe/membership"); ok && info.Why != "" {
		notes = append(notes, "membership: "+info.Why)
	}
	if note := skewNote(n.clock.Skew(), n.cfg.full()); note != "" {
		notes = append(notes, note)
	}
	notes = append(notes, n.network.notes()...)
	for _, id := range n.system.Registry.Stuck() {
		notes = append(notes, "actor "+id+" is stuck: it handles one message while others wait")
	}
	return waits, notes
}
