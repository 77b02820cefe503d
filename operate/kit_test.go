package operate

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/alerts"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/clock"
	"github.com/troupe-run/troupe/store/sqlite"
	"github.com/troupe-run/troupe/supervisor"
)

// cluster is some nodes on one store, without trees: each has an Operator over a stage, and asks the others by calls.
type cluster struct {
	t     testing.TB
	store *shared
	nodes map[messages.Incarnation]*node
	lost  map[messages.Incarnation]bool // they do not answer

	unleased bool // the store holds nobody to a lease
}

// shared is the embedded store, as several nodes would see it if they could share it.
type shared struct {
	*sqlite.Store
	cluster *cluster
	workers []store.Worker
	ahead   time.Duration // its clock is
}

func (s *shared) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.Add(s.ahead), err
}

func (s *shared) ListNodes(context.Context) (rows []store.Node, err error) {
	for _, n := range s.cluster.nodes {
		rows = append(rows, n.stage.Row())
	}
	return rows, nil
}

func (s *shared) ListWorkers(_ context.Context, pool string) (rows []store.Worker, err error) {
	for _, w := range s.workers {
		if pool == "" || pool == w.Key.Pool {
			rows = append(rows, w)
		}
	}
	return rows, nil
}

// node is one node of a cluster.
type node struct {
	*Operator
	stage *stage
}

// stage is what one node's Operator has around it: pools that answer and remember what they were told.
type stage struct {
	cluster *cluster
	cfg     Config
	mu      sync.Mutex
	pools   map[string]supervisor.Description
	told    []string
	drained string
	halted  roster.Reason // why nothing is placed
}

func newCluster(t testing.TB) *cluster {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "troupe.db")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	c := &cluster{t: t, nodes: map[messages.Incarnation]*node{}, lost: map[messages.Incarnation]bool{}}
	c.store = &shared{Store: s, cluster: c}
	return c
}

// join adds a node with one pool of idle workers, which the store knows too.
func (c *cluster) join(name, pool string, workers int) *node {
	s := &stage{cluster: c, pools: map[string]supervisor.Description{}}
	s.cfg = Config{
		Name: name, Incarnation: messages.NewIncarnation(), Logger: hclog.NewNullLogger(), Store: c.store, Clock: &clock.Clock{},
		Pools: s, Self: s, Servers: s, Members: s, Record: s.record, Feeds: actors.NewFeeds(), Outcomes: actors.NewOutcomes(), Runs: &Runs{},
		Readings: func(context.Context) []alerts.Reading {
			return []alerts.Reading{{Series: "troupe_store_up", Values: map[string]float64{"": 1}}, {Series: "troupe_workers_by_grade", Values: map[string]float64{pool: float64(workers)}}}
		},
		MarkPool: func(*view.Pool) {}, Retries: func(context.Context, *messages.Execution) view.Retry { return view.Retry{} },
		SessionTimeout: time.Minute, ProbeTimeout: time.Second, BeatEvery: time.Second, CountFor: time.Minute,
		Grades: Grades{health.Thresholds{Heartbeat: health.Limit(10*time.Second, 3)}, 3},
	}
	require.NoError(c.t, c.store.Join(c.t.Context(), s.Row(), time.Hour))
	d := supervisor.Description{Name: pool, Runtime: "shell", Started: true}
	for i := range workers {
		slot := messages.Slot(i)
		d.Workers = append(d.Workers, supervisor.WorkerState{Slot: slot, ID: messages.NewWorkerID(name, pool, slot), Generation: 3, State: lifecycle.Ready})
		row := store.Worker{
			Key: messages.WorkerKey{Incarnation: s.cfg.Incarnation, Pool: pool, Slot: slot}, ID: messages.NewWorkerID(name, pool, slot),
			Generation: 3, Runtime: "shell", State: lifecycle.Ready.String(), Active: true, BeatEvery: 10 * time.Second,
		}
		require.NoError(c.t, c.store.SaveWorkers(c.t.Context(), []store.Worker{row}))
		c.store.workers = append(c.store.workers, row)
	}
	s.pools[pool] = d
	n := &node{New(s.cfg), s}
	n.Connect(s)
	c.nodes[s.cfg.Incarnation] = n
	return n
}

func (s *stage) record(ctx context.Context, _ string, items []actors.Item) ([]store.Result, error) {
	changes := make([]store.Change, len(items))
	for i := range items {
		changes[i] = items[i].Change
	}
	return s.cluster.store.Apply(ctx, changes)
}

// beaten is when every node of a cluster has renewed its lease.
var beaten = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func (s *stage) Row() store.Node {
	return store.Node{Incarnation: s.cfg.Incarnation, Name: s.cfg.Name, State: store.NodeActive, Address: s.cfg.Name + ":7070", BeatAt: beaten, LeaseUntil: beaten.Add(4 * time.Second)}
}
func (s *stage) Label() string           { return s.cfg.Name }
func (s *stage) Open() bool              { return true }
func (s *stage) Gate() *messages.Problem { return nil }
func (s *stage) Drain(by string) error   { s.drained = by; return nil }
func (s *stage) Waits() []string         { return nil }
func (s *stage) Halted(string) roster.Reason {
	if s.halted == 0 {
		return roster.Ready
	}
	return s.halted
}
func (s *stage) Suspect()                           {}
func (s *stage) Over() context.Context              { return s.cluster.t.Context() }
func (s *stage) Leased() bool                       { return !s.cluster.unleased }
func (s *stage) Unrenewed() string                  { return "" }
func (s *stage) Others() int                        { return len(s.cluster.nodes) - 1 }
func (s *stage) NameOf(messages.Incarnation) string { return "" }

func (s *stage) Has(pool string) bool { _, has := s.pools[pool]; return has }

func (s *stage) Tell(pool string, message any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprintf("%s: %T%+v", pool, message, message))
	return s.Has(pool)
}

func (s *stage) TellAll(message any) {
	for pool := range s.pools {
		s.Tell(pool, message)
	}
}

// orders are what the pools were told.
func (s *stage) orders() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.told...)
}

func (s *stage) Describe(_ context.Context, pool string) (supervisor.Description, error) {
	return s.pools[pool], nil
}

func (s *stage) DescribeAll(context.Context) map[string]supervisor.Description { return s.pools }

func (s *stage) Why(context.Context, string, supervisor.WhyWaiting) (supervisor.WhyAnswer, error) {
	for inc := range s.cluster.nodes {
		if inc != s.cfg.Incarnation {
			return supervisor.WhyAnswer{Router: inc}, nil
		}
	}
	return supervisor.WhyAnswer{Reason: roster.WorkersBusy, Turn: roster.Turn{Ahead: 3, Line: roster.PoolLine}}, nil
}

func (s *stage) Probe(_ context.Context, pool string, slot messages.Slot) error {
	s.Tell(pool, fmt.Sprintf(" probe %d", slot))
	return nil
}

func (s *stage) Inspect(context.Context, string) (actors.Inspection, error) {
	return actors.Inspection{}, actors.ErrGone
}

// Peers, Ask and AskLong make a stage its own Network: the others answer at once, by what they would answer a connection.
func (s *stage) Peers() (list []peers.Peer) {
	for inc, other := range s.cluster.nodes {
		if inc != s.cfg.Incarnation {
			list = append(list, peers.Peer{Incarnation: inc, Name: other.cfg.Name, Heard: !s.cluster.lost[inc]})
		}
	}
	return list
}

func (s *stage) Ask(ctx context.Context, to messages.Incarnation, about messages.Placement, body wire.Body) (wire.Body, error) {
	return s.AskLong(ctx, time.Second, to, about, body)
}

func (s *stage) AskLong(ctx context.Context, _ time.Duration, to messages.Incarnation, about messages.Placement, body wire.Body) (wire.Body, error) {
	if s.cluster.lost[to] {
		return nil, peers.ErrBusy
	}
	o := s.cluster.nodes[to].Operator
	a, r := steered{o.cfg, o.steering, o.own, o.Cordons}, peers.Request{From: s.cfg.Incarnation, About: about}
	switch m := body.(type) {
	case wire.Workers:
		return a.workers(ctx, r, m)
	case wire.Pools:
		return a.pools(ctx, r, m)
	case wire.Cells:
		return a.cells(ctx, r, m)
	case wire.Readings:
		return a.readings(ctx, r, m)
	case wire.Sights:
		return a.sights(ctx, r, m)
	case wire.ProbeWorker:
		return a.probe(ctx, r, m)
	case wire.Kill:
		return a.kill(ctx, r, m)
	case wire.Cordon:
		return a.cordon(ctx, r, m)
	case wire.Drain:
		return a.drain(ctx, r, m)
	case wire.Cancel:
		return a.cancel(ctx, r, m)
	case wire.Output:
		return a.output(ctx, r, m)
	case wire.WhyWaiting:
		return wire.WhyWaitingResult{Reason: roster.WorkersBusy.String()}, nil
	}
	return nil, peers.ErrUnsupported
}
