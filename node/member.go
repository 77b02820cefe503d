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
	*base
	joined  time.Time    // by this machine's clock, which the machine counts from
	nodes   []store.Node // that lived when this one joined
	machine *membership.Machine
	lease   *actors.Lease
	granted atomic.Pointer[actors.Lease] // lease, for those that ask from outside, perhaps before there is one
	leases  bool                         // the store evaluates them
	label   string                       // the node's name in the ids of its workers
	// guardian launches this incarnation's processes, from the join on.
	guardian *process.Guardian
	fenced   atomic.Pointer[string]
	over     context.Context // ends when it is fenced, or its tree has stopped
	end      context.CancelFunc
	mu       sync.Mutex
	down     []*supervisor.NodeDown              // told so far, for pools that start later
	up       map[messages.Incarnation]store.Node // the others that live, with their rows as they were when they came up
	lost     func()                              // counts a node that this one has declared dead
	// before says how the incarnation before this one ended in this process; empty: there was none.
	before string
}

func newMember(b *base) *member {
	m := &member{base: b}
	m.over, m.end = context.WithCancel(context.Background())
	return m
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
// before the tree starts. Own is its row. It may be repeated.
func (m *member) join(ctx context.Context, own store.Node) error {
	now, err := m.store.Now(ctx)
	if err != nil {
		return err
	}
	own.State, own.StartedAt, own.BeatAt = store.NodeActive, now, now
	err = m.store.Join(ctx, own, m.cfg.Lease)
	if err != nil {
		return died(err)
	}
	if err := m.warnOfClock(ctx, now); err != nil {
		return err
	}
	asked := time.Now()
	pulse, err := m.store.Beat(ctx, m.incarnation, m.cfg.Lease)
	if err != nil {
		return died(err)
	}
	m.settle(asked, pulse)
	if err := m.openGuardian(); err != nil {
		return err
	}
	m.journal.node("joined", "", "", map[string]any{"name": m.cfg.Name, "version": m.cfg.Version})
	return nil
}

// clockSlack is how far behind an earlier boot the store's clock may stand before that is worth a word.
const clockSlack = time.Second

// warnOfClock says where the store's clock stands before the last beat of an earlier boot: the machine's clock was set
// back in between. What that boot left waiting is due by its own times, so it may wait until the clock has caught up.
func (m *member) warnOfClock(ctx context.Context, now time.Time) error {
	nodes, err := m.store.ListNodes(ctx)
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
		m.logger.Warn("the clock was set back since an earlier boot; what it left waiting is due once the clock has caught up",
			"clock", now, "last_beat", last, "behind", behind)
	}
	return nil
}

// settle keeps what the renewal showed with which the node joined, and that was asked for at asked.
func (m *member) settle(asked time.Time, p store.Pulse) {
	joined := supervisor.Joined(m.incarnation, p)
	m.joined, m.nodes, m.leases, m.label = asked, p.Nodes, joined.Leases, m.labelAmong(p)
	m.mu.Lock() // whoever looks at the tree of a node that starts reads it already
	m.up = map[messages.Incarnation]store.Node{}
	m.mu.Unlock()
	m.lease = actors.NewLease(!m.leases)
	m.lease.Steady(asked, m.cfg.Lease)
	m.lease.Grant(asked, m.cfg.Lease)
	m.granted.Store(m.lease)
	beat := m.cfg.HeartbeatInterval // for people to see; a store that one node alone uses asks for no more
	if m.leases {
		beat = m.cfg.BeatEvery
	}
	m.machine = membership.New(membership.Config{Lease: m.cfg.Lease, Beat: beat, Grace: m.cfg.OutageGrace}, joined)
}

// labelAmong is the node's name in worker ids: with the incarnation's short form where another node of the name lives. One
// that was killed holds its lease for some seconds, while its connection is gone at once: a node that is started again
// keeps the ids of its workers. An id is a name for people; rows, claims and queues go by the incarnation, so a living
// node that has lost its connection at that moment is only harder to tell apart.
func (m *member) labelAmong(p store.Pulse) string {
	for i := range p.Nodes {
		other := &p.Nodes[i]
		if other.Name == m.cfg.Name && other.Incarnation != m.incarnation && other.LeaseUntil.After(p.At) && other.Present {
			label := m.cfg.Name + "@" + m.incarnation.Short()
			m.logger.Warn("another live node has this one's name; worker ids carry the incarnation", "node", m.cfg.Name,
				"other", other.Incarnation, "label", label)
			return label
		}
	}
	return m.cfg.Name
}

// openGuardian makes the launcher of this incarnation's processes. Where leases are evaluated they end with the lease.
func (m *member) openGuardian() (err error) {
	cfg := process.Config{Incarnation: m.incarnation, Ledger: m.cfg.ledgerPath(), Logger: m.logger.Named("guardian")}
	if m.leases {
		cfg.Lease = m.cfg.Lease
	}
	m.guardian, err = process.NewGuardian(cfg)
	return err
}

// spec is the actor of membership. Of its configuration the node fills in what other parts do.
func (m *member) spec(c supervisor.MemberConfig) actors.Child {
	c.System, c.Store, c.Incarnation, c.LeaseTime, c.Machine, c.Base = m.system, m.store, m.incarnation, m.cfg.Lease, m.machine, m.joined
	c.Nodes, c.Lease, c.Root, c.GoOn, c.Logger = m.nodes, m.lease, m.system.PID("troupe"), m.guardian.Renew, m.logger.Named("membership")
	return supervisor.NewMember(c)
}

// hear takes membership's news of the others.
func (m *member) hear(message any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch news := message.(type) {
	case *supervisor.StoreStands:
		what := "on_time"
		if news.Away {
			what = "late" // with its lease
		}
		m.journal.node(what, "", "", nil)
	case *supervisor.NodeUp:
		m.up[news.Node.Incarnation] = news.Node
	case *supervisor.NodeDown:
		m.recordDeath(&news.Node)
		delete(m.up, news.Node.Incarnation)
		m.down = append(m.down, news)
		if over := len(m.down) - downMax; over > 0 {
			m.down = m.down[over:]
		}
	}
}

// recordDeath records that this node has declared another dead.
func (m *member) recordDeath(n *store.Node) {
	if n.Ended != "" {
		m.lost()
		m.journal.about(n.Incarnation, "dead", string(n.Ended), "", map[string]any{"name": n.Name, "beat_at": n.BeatAt})
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

// Leased implements operate.Members.
func (m *member) Leased() bool { return m.leases }

// fresh reports whether the last renewal is young, where the store evaluates leases.
func (m *member) fresh() bool {
	lease := m.granted.Load()
	return lease == nil || lease.Fresh() || !m.leases
}

// Unrenewed implements operate.Members.
func (m *member) Unrenewed() string {
	if !m.fresh() {
		return "this node does not renew its lease: the store is not seen from here"
	}
	return ""
}

// tellDown tells a pool that has just started of the incarnations that have ended.
func (m *member) tellDown(pool *actor.PID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, news := range m.down {
		m.system.Send(pool, news)
	}
}

// fence gives this incarnation up, because others may have taken it for dead. Whoever runs the node stops it, which for a
// fenced one means at once, and starts a new incarnation; see Keeper.
func (m *member) fence(why string) {
	text := "fenced: " + why
	if !m.fenced.CompareAndSwap(nil, &text) {
		return
	}
	m.phase.open.Store(false)
	m.end()
	m.journal.node("fenced", why, "", nil)
	m.logger.Error(text+"; all work is stopped, and the node comes back as a new incarnation", "node", m.cfg.Name,
		"incarnation", m.incarnation)
	if m.cfg.Fenced != nil {
		go m.cfg.Fenced(text)
		return
	}
	m.fatal(errors.New(text))
}

// untilOver is ctx, ended early where the node is fenced, or when its tree has stopped.
func (m *member) untilOver(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(m.over, cancel)
	return ctx, func() {
		release()
		cancel()
	}
}

// isFenced reports whether the node has given itself up, and why.
func (m *member) isFenced() (string, bool) {
	if text := m.fenced.Load(); text != nil {
		return *text, true
	}
	return "", false
}

// notes are what /readyz says of the node's life.
func (m *member) notes() (waits, notes []string) {
	if text, fenced := m.isFenced(); fenced {
		waits = append(waits, text+"; the node comes back as a new incarnation")
	}
	if m.before != "" {
		notes = append(notes, "the incarnation before this one was "+m.before)
	}
	if info, ok := m.system.Registry.Get("troupe/membership"); ok && info.Why != "" {
		notes = append(notes, "membership: "+info.Why)
	}
	return waits, notes
}

// renewing reports whether the node renews its lease. Peers may ask before it has one.
func (m *member) renewing() bool { return m.granted.Load().Renewing() }
