package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

var errAway = fmt.Errorf("dial: connection refused: %w", store.ErrUnavailable)

// switchedStore is a store that can go away: calls that it gets meanwhile fail.
type switchedStore struct {
	store.Store
	away atomic.Bool
}

// open makes the opener of a store in the node's data folder, which fails while the store is away.
func (s *switchedStore) open(c *node.Config) {
	path := filepath.Join(c.Data, "shared.db")
	c.OpenStore = func(ctx context.Context) (store.Store, error) {
		if s.away.Load() {
			return nil, errAway
		}
		opened, err := sqlite.Open(ctx, sqlite.Config{Path: path})
		s.Store = opened
		return s, err
	}
}

func (s *switchedStore) err() error {
	if s.away.Load() {
		return errAway
	}
	return nil
}

func (s *switchedStore) Now(ctx context.Context) (time.Time, error) {
	if err := s.err(); err != nil {
		return time.Time{}, err
	}
	return s.Store.Now(ctx)
}

func (s *switchedStore) Beat(ctx context.Context, inc messages.Incarnation, lease time.Duration) (store.Pulse, error) {
	if err := s.err(); err != nil {
		return store.Pulse{}, err
	}
	return s.Store.Beat(ctx, inc, lease)
}

func (s *switchedStore) Submit(ctx context.Context, list []messages.Execution) ([]store.Submitted, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Submit(ctx, list)
}

func (s *switchedStore) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Apply(ctx, changes)
}

func (s *switchedStore) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	if err := s.err(); err != nil {
		return store.DuePage{}, err
	}
	return s.Store.Due(ctx, q)
}

func (s *switchedStore) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	if err := s.err(); err != nil {
		return messages.Execution{}, err
	}
	return s.Store.Get(ctx, id)
}

func (s *switchedStore) AppendJournal(ctx context.Context, entries []messages.JournalEntry) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.AppendJournal(ctx, entries)
}

// switchedBroker is a broker that can go away, with all its consumers, or be blocked.
type switchedBroker struct {
	broker.Broker
	mu        sync.Mutex
	status    broker.Status
	consumers []broker.Consumer
	refused   atomic.Int64 // placements
	broken    atomic.Bool  // no queue of a worker's can be declared
	forbidden atomic.Bool  // nothing may be declared
}

func newSwitchedBroker() *switchedBroker {
	return &switchedBroker{Broker: memory.New(memory.Config{}), status: broker.Status{Up: true}}
}

func (b *switchedBroker) open(c *node.Config) {
	c.OpenBroker = func(context.Context) (broker.Broker, error) { return b, nil }
}

func (b *switchedBroker) set(s broker.Status) {
	b.mu.Lock()
	b.status = s
	ended := b.consumers
	if !s.Up {
		b.consumers = nil
	}
	b.mu.Unlock()
	if !s.Up {
		for _, c := range ended {
			_ = c.Cancel()
		}
	}
}

func (b *switchedBroker) Status() broker.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

func (b *switchedBroker) err() error {
	if s := b.Status(); !s.Up {
		return fmt.Errorf("%s: %w", s.Reason, broker.ErrUnavailable)
	}
	return nil
}

func (b *switchedBroker) Declare(ctx context.Context, t broker.Topology) error {
	if err := b.err(); err != nil {
		return err
	}
	if b.forbidden.Load() {
		return errors.New("ACCESS_REFUSED - the user lacks a permission")
	}
	if b.broken.Load() && slices.ContainsFunc(t.Queues, func(q broker.Queue) bool { return strings.Contains(q.Name, ".worker.") }) {
		return fmt.Errorf("%w: %s: 541 INTERNAL_ERROR", broker.ErrBroken, t.Queues[0].Name)
	}
	return b.Broker.Declare(ctx, t)
}

func (b *switchedBroker) Publish(ctx context.Context, list []broker.Message) ([]broker.Confirm, error) {
	s := b.Status()
	if s.Up && !s.Blocked {
		return b.Broker.Publish(ctx, list)
	}
	for i := range list {
		if list[i].Exchange == "" { // a placement; notices go to an exchange
			b.refused.Add(1)
		}
	}
	confirms := make([]broker.Confirm, len(list))
	for i := range confirms {
		confirms[i] = broker.Unknown
	}
	return confirms, fmt.Errorf("%s: %w", s.Reason, broker.ErrUnavailable)
}

func (b *switchedBroker) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	if err := b.err(); err != nil {
		return nil, err
	}
	c, err := b.Broker.Consume(ctx, queue, prefetch)
	if err == nil {
		b.mu.Lock()
		b.consumers = append(b.consumers, c)
		b.mu.Unlock()
	}
	return c, err
}

// fullLab starts a node on servers that can go away.
func fullLab(t *testing.T, handlers map[string]messages.Handler) (*kit, *switchedStore, *switchedBroker) {
	s, b := &switchedStore{}, newSwitchedBroker()
	packs := map[string]string{}
	for name := range handlers {
		packs[name] = ""
	}
	k := lab(t, func(c *node.Config) {
		handle(handlers)(c)
		s.open(c)
		b.open(c)
		c.Listen = "127.0.0.1:0"
	}, goPack(t, packs))
	k.ready("go", 0, 0)
	return k, s, b
}

// page is one answer of the node's API.
type page struct {
	status int
	header http.Header
	body   string
}

func (k *kit) call(method, path, body string) page {
	k.t.Helper()
	r, err := http.NewRequestWithContext(k.t.Context(), method, "http://"+k.Addr()+path, strings.NewReader(body))
	require.NoError(k.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(k.t, err)
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	require.NoError(k.t, err)
	return page{answer.StatusCode, answer.Header, string(raw)}
}

// logged counts the log's lines that hold a text.
func (k *kit) logged(text string) int { return strings.Count(k.log.String(), text) }

// A node whose store is not there yet says so, keeps its API open, accepts nothing, and starts by itself.
func TestStartWaitsForTheStore(t *testing.T) {
	t.Parallel()
	s, b := &switchedStore{}, newSwitchedBroker()
	s.away.Store(true)
	b.set(broker.Status{Reason: "connection refused"})
	cfg, log := short(t, t.TempDir(), goPack(t, map[string]string{"noop": ""}))
	handle(map[string]messages.Handler{"noop": noop})(&cfg)
	s.open(&cfg)
	b.open(&cfg)
	cfg.Listen = "127.0.0.1:0"
	n, err := node.New(cfg)
	require.NoError(t, err)
	k := &kit{Node: n, Backend: n.Backend(), t: t, log: log}
	began := make(chan error, 1)
	go func() { began <- n.Start(t.Context()) }()
	t.Cleanup(func() { require.NoError(t, n.Stop(context.Background())) })
	k.until("both servers are waited for", func() bool { return k.logged("waiting for the ") == 2 })

	require.Equal(t, 200, k.call("GET", "/healthz", "").status)
	ready := k.call("GET", "/readyz", "")
	require.Equal(t, 503, ready.status)
	var waits api.Readiness
	require.NoError(t, json.Unmarshal([]byte(ready.body), &waits))
	require.False(t, waits.Ready)
	require.Equal(t, []string{"store: dial: connection refused: store is unavailable", "broker: connection refused"}, waits.WaitsFor)
	require.Len(t, waits.Waits, 2)
	for i, w := range waits.Waits {
		require.Equal(t, waits.WaitsFor[i], w.For)
		require.WithinRange(t, w.Since, time.Now().Add(-time.Minute), time.Now().Add(time.Second))
	}
	require.Contains(t, waits.Waits[0].WhatToDo, "Check that the database runs")
	require.Contains(t, waits.Waits[1].WhatToDo, "Check that RabbitMQ runs")
	require.Contains(t, k.call("GET", "/debug/actors", "").body, `"waits_for":["store: `)
	require.Contains(t, k.call("GET", "/metrics", "").body, "troupe_store_up 0")
	refused := k.call("POST", "/api/v1/executions", `{"action_ref":"t.noop"}`)
	require.Equal(t, 503, refused.status)
	require.Contains(t, refused.body, `"store_unavailable"`)
	require.Equal(t, "1", refused.header.Get("Retry-After"))
	require.Contains(t, k.call("GET", "/api/v1/executions/"+messages.NewExecutionID().String()+"/why", "").body, `"store_away"`)
	_, err = k.Submit(t.Context(), []submit.Request{ask("t.noop", nil)})
	var problem *messages.Problem
	require.ErrorAs(t, err, &problem)

	s.away.Store(false)
	require.NoError(t, <-began)
	id := k.submit("t.noop", nil) // kept, although the broker is not there yet
	require.Equal(t, messages.Requested, k.get(id).Status)
	require.Contains(t, k.call("GET", "/readyz", "").body, `"broker: connection refused"`)
	b.set(broker.Status{Up: true})
	require.Equal(t, messages.Completed, k.await(id).Status)
	k.until("the node is ready", func() bool { return k.call("GET", "/readyz", "").status == 200 })
	require.Equal(t, 1, k.logged("store is back"))
	require.Equal(t, 1, k.logged("broker is back"))
}

// The end of a start's context ends the wait at once; what no waiting mends ends the start by itself.
func TestStartEndsWhereWaitingIsOver(t *testing.T) {
	t.Parallel()
	wrong := errors.New("password authentication failed")
	for name, c := range map[string]struct {
		opened error
		status broker.Status
		cancel bool
		want   string
	}{
		"stopped":        {opened: errAway, status: broker.Status{Up: true}, cancel: true, want: "context canceled"},
		"wrong password": {opened: wrong, status: broker.Status{Up: true}, want: wrong.Error()},
		"refused broker": {opened: errAway, status: broker.Status{Refused: true, Reason: "ACCESS_REFUSED"}, want: "broker: ACCESS_REFUSED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newSwitchedBroker()
			b.set(c.status)
			cfg, log := short(t, t.TempDir())
			b.open(&cfg)
			cfg.OpenStore = func(context.Context) (store.Store, error) { return nil, c.opened }
			n, err := node.New(cfg)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			k := &kit{Node: n, t: t, log: log}
			began := make(chan error, 1)
			go func() { began <- n.Start(ctx) }()
			if c.cancel {
				k.until("the store is waited for", func() bool { return k.logged("waiting for the store") == 1 })
				cancel()
			}
			select {
			case err := <-began:
				require.ErrorContains(t, err, c.want)
			case <-time.After(patience):
				require.FailNow(t, "the start goes on")
			}
		})
	}
}

// A broker that comes back and refuses what it took before ends no node. The node says so, and works once it may.
func TestABrokerThatRefusesLaterIsWaitedFor(t *testing.T) {
	t.Parallel()
	k, _, b := fullLab(t, map[string]messages.Handler{"noop": noop})
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
	k.until("the node is ready", func() bool { return k.call("GET", "/readyz", "").status == 200 && k.logged("broker is up") > 0 })
	b.forbidden.Store(true)
	b.set(broker.Status{Reason: "gone"})
	k.until("the broker is away", func() bool { return k.logged("broker is away") > 0 })
	b.set(broker.Status{Up: true})
	k.until("the node says that it is refused", func() bool {
		return strings.Contains(k.call("GET", "/readyz", "").body, "broker: declare the shared queues and exchanges: ACCESS_REFUSED")
	})
	b.forbidden.Store(false)
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
	k.until("the node is ready", func() bool { return k.call("GET", "/readyz", "").status == 200 })
	require.Zero(t, k.logged("cannot go on"))
}

// Workers whose queue cannot be declared are ready and get nothing. The node says so wherever somebody may look, and works once it can.
func TestWorkersWithoutAQueueAreTold(t *testing.T) {
	t.Parallel()
	b := newSwitchedBroker()
	b.broken.Store(true)
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		b.open(c)
		c.Listen, c.EchoInterval = "127.0.0.1:0", time.Second
	}, goPack(t, map[string]string{"noop": "on_no_worker: wait\n"}))
	id := k.submit("t.noop", nil)
	k.until("it is not ready", func() bool { return k.fetch("/readyz", nil) == http.StatusServiceUnavailable })
	var ready api.Readiness
	k.fetch("/readyz", &ready)
	require.Len(t, ready.WaitsFor, 1)
	require.Regexp(t, `^pool go: 2 of 2 workers are ready and get no work, for their queue has not delivered for .*s `+
		`\(.*/go/0, .*/go/1\): .*541 INTERNAL_ERROR$`, ready.WaitsFor[0])
	require.Contains(t, ready.Waits[0].WhatToDo, "rabbitmqctl delete_queue")
	var pools api.PoolList
	require.Equal(t, http.StatusOK, k.fetch("/api/v1/pools", &pools))
	require.Equal(t, 2, pools.Pools[0].Unattached)
	require.Zero(t, pools.Pools[0].Ready)
	require.Contains(t, pools.Pools[0].Reason, "get no work")
	require.Contains(t, k.scrape(), `troupe_workers_unattached{pool="go"} 2`)
	k.until("it is found, and the echo is late", func() bool {
		names := map[string]bool{}
		for _, f := range k.Backend.Findings().Findings {
			names[f.Name] = true
		}
		return names["workers_unattached"] && names["dispatch_late"]
	})
	require.Equal(t, messages.Requested, k.get(id).Status)

	b.broken.Store(false)
	require.Equal(t, messages.Completed, k.await(id).Status)
	k.until("it is ready", func() bool { return k.fetch("/readyz", nil) == http.StatusOK })
	k.until("nothing is wrong any more", func() bool {
		for _, f := range k.Backend.Findings().Findings {
			if f.Name == "workers_unattached" {
				return false
			}
		}
		return true
	})
}

// While the store is away callers are told so at once, running work goes on, and its outcome is kept.
func TestStoreOutage(t *testing.T) {
	t.Parallel()
	g := newGate()
	k, s, _ := fullLab(t, map[string]messages.Handler{"held": g.run, "noop": noop})
	held := k.submit("t.held", nil)
	g.next(t)
	s.away.Store(true)
	k.until("the node knows it", func() bool { return k.logged("store is away; running work") == 1 })
	for range 50 {
		began := time.Now()
		refused := k.call("POST", "/api/v1/executions", `{"action_ref":"t.noop"}`)
		require.Equal(t, 503, refused.status)
		require.Contains(t, refused.body, `"store_unavailable"`)
		require.Less(t, time.Since(began), 5*time.Second)
	}
	require.Equal(t, 503, k.call("GET", "/api/v1/executions/"+held.String(), "").status)
	require.Equal(t, 200, k.call("GET", "/api/v1/workers", "").status)
	require.Contains(t, k.call("GET", "/readyz", "").body, `"store: dial: connection refused`)
	require.Contains(t, k.call("GET", "/metrics", "").body, "troupe_store_up 0")
	why, err := k.Why(t.Context(), held)
	require.NoError(t, err)
	require.Equal(t, "store_away", why.Reason)
	close(g.open) // the run ends while nothing can be written
	k.until("the outcome waits", func() bool { return k.logged("store did not take changes, repeating") == 1 })
	s.away.Store(false)
	k.until("the store is back", func() bool { return k.logged("store is back") == 1 })
	e := k.await(held)
	require.Equal(t, messages.Completed, e.Status)
	require.EqualValues(t, 1, e.Attempt)
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
	require.Equal(t, 1, k.logged("store is away; running work"))
	require.Equal(t, 1, k.logged("store is back"))
}

// While the broker is away or blocked submissions are kept and nothing is placed; both end by themselves.
func TestBrokerOutage(t *testing.T) {
	t.Parallel()
	for reason, status := range map[string]broker.Status{
		"broker_away":    {Reason: "connection reset"},
		"broker_blocked": {Up: true, Blocked: true, Reason: "low on memory"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			g := newGate()
			k, _, b := fullLab(t, map[string]messages.Handler{"held": g.run, "noop": noop})
			held := k.submit("t.held", nil)
			g.next(t)
			b.set(status)
			var ids []messages.ExecutionID
			for range 20 {
				ids = append(ids, k.submit("t.noop", nil))
			}
			k.until("the router says why", func() bool {
				x, err := k.Why(t.Context(), ids[19])
				require.NoError(t, err)
				return x.Reason == reason
			})
			k.until("what was placed has been refused and taken back", func() bool {
				return !slices.ContainsFunc(ids, func(id messages.ExecutionID) bool { return k.get(id).Status != messages.Requested })
			})
			published := b.refused.Load()
			require.LessOrEqual(t, published, int64(len(ids)), "what was placed already is published once")
			k.until("readiness says why", func() bool { return strings.Contains(k.call("GET", "/readyz", "").body, status.Reason) })
			ready := k.Ready(t.Context())
			waits := ready.Waits[slices.IndexFunc(ready.Waits, func(w api.ReadinessWait) bool { return strings.HasPrefix(w.For, "broker: ") })]
			require.WithinRange(t, waits.Since, time.Now().Add(-time.Minute), time.Now().Add(time.Second))
			require.Contains(t, waits.WhatToDo, map[string]string{"broker_away": "Check that RabbitMQ runs", "broker_blocked": "rabbitmq-diagnostics alarms"}[reason])
			require.Equal(t, reason, k.pool("go").Halted, "its pool does not look well")
			require.NotEmpty(t, k.pool("go").Reason)
			close(g.open)
			require.Equal(t, messages.Completed, k.await(held).Status)
			for _, id := range ids {
				require.LessOrEqual(t, k.get(id).Attempt, messages.Attempt(1))
			}
			require.Equal(t, published, b.refused.Load(), "nothing is placed meanwhile")
			b.set(broker.Status{Up: true})
			for _, id := range ids {
				require.Equal(t, messages.Completed, k.await(id).Status)
			}
			k.until("the node says so", func() bool { return k.logged("broker is back") == 1 })
			require.Empty(t, k.pool("go").Halted)
			k.until("it waits for nothing", func() bool { return len(k.Ready(t.Context()).Waits) == 0 })
		})
	}
}

// Two nodes of the full mode may not share a data folder: the ledger of processes is in it.
func TestOneDataFolderANode(t *testing.T) {
	t.Parallel()
	s, b := &switchedStore{}, newSwitchedBroker()
	k := lab(t, func(c *node.Config) { s.open(c); b.open(c) })
	cfg, _ := short(t, k.data)
	(&switchedStore{}).open(&cfg)
	newSwitchedBroker().open(&cfg)
	second, err := node.New(cfg)
	require.NoError(t, err)
	err = second.Start(t.Context())
	require.ErrorContains(t, err, "data folder "+k.data+": in use by another node (process ")
	require.ErrorContains(t, err, "give this one another --data folder")
	require.NoError(t, k.stop())
}
