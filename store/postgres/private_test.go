package postgres_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/test/proxy"
	"github.com/troupe-run/troupe/test/servers"
)

// patience bounds the wait for an expected event, also on a busy machine.
const patience = 60 * time.Second

// TestPrivateServer runs, one after the other, the tests that kill, freeze or fill a server, on a server of its own.
func TestPrivateServer(t *testing.T) {
	t.Parallel()
	server := servers.PrivatePostgres(t, servers.PostgresOptions{})
	for _, c := range []struct {
		name string
		run  func(*rig)
	}{
		{"killed", (*rig).killed},
		{"one_backend_killed", (*rig).backendKilled},
		{"stopped_and_started", (*rig).stopped},
		{"frozen", (*rig).frozen},
		{"network", (*rig).network},
		{"frozen_client_with_locks", (*rig).frozenClient},
		{"read_only", (*rig).readOnly},
		{"replica", (*rig).replica},
		{"connections_kept_on_a_replica", (*rig).replicaKept},
		{"disk_full", (*rig).full},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(&rig{t, server}) })
	}
}

// rig is the private server for one test.
type rig struct {
	*testing.T
	server *servers.PostgresServer
}

func (r *rig) must(err error) {
	r.Helper()
	require.NoError(r, err)
}

// open opens a store in a schema of the test's own. Parameters are appended to the URL's first one.
func (r *rig) open(server string, parameters ...string) *postgres.Store {
	s, err := postgres.Open(r.Context(), postgres.Config{
		URL: strings.Join(append([]string{server}, parameters...), "&"), Schema: filepath.Base(r.Name()), EventsAll: true, Conns: 4,
	})
	r.must(err)
	r.Cleanup(func() { r.must(s.Close()) })
	return s
}

// connect opens another program's connection to the store's schema, with its own settings.
func (r *rig) connect(s *postgres.Store, settings map[string]string) *pgx.Conn {
	cfg, err := pgx.ParseConfig(r.server.URL)
	r.must(err)
	for name, value := range settings {
		cfg.RuntimeParams[name] = value
	}
	cfg.RuntimeParams["search_path"] = s.Schema()
	c, err := pgx.ConnectConfig(r.Context(), cfg)
	r.must(err)
	r.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// load has callers that take executions from submission to outcome, and repeat every call with an unknown outcome.
type load struct {
	*rig
	s    *postgres.Store
	key  messages.WorkerKey
	work sync.WaitGroup
	quit chan struct{}
	done atomic.Int64 // executions that ended
	hurt atomic.Int64 // calls of unknown outcome
	mu   sync.Mutex
	// ids are the executions that ended, and whether a call for one was repeated after it timed out.
	ids map[messages.ExecutionID]bool
}

const loadCallers = 4

func (r *rig) load(s *postgres.Store) *load {
	l := &load{rig: r, s: s, key: joined(r, s), quit: make(chan struct{}), ids: map[messages.ExecutionID]bool{}}
	for range loadCallers {
		l.work.Go(func() {
			for {
				select {
				case <-l.quit:
					return
				default:
					l.lead()
				}
			}
		})
	}
	return l
}

// again makes a call until its outcome is known, and reports whether that took more than one try. No call may last
// longer than its context allows.
func (l *load) again(call func(ctx context.Context) error) (repeated bool) {
	for end := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		began := time.Now()
		err := call(ctx)
		cancel()
		if took := time.Since(began); took > 10*time.Second {
			l.Errorf("a call with a deadline of 2 s took %v: %v", took, err)
		}
		switch {
		case err == nil:
			return repeated
		case !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded):
			l.Errorf("want an error that may be repeated, got %v", err)
			return repeated
		case time.Now().After(end):
			l.Errorf("never came back: %v", err)
			return repeated
		}
		repeated = true
		l.hurt.Add(1)
		time.Sleep(5 * time.Millisecond) // a caller backs off, because a stopped server refuses at once
	}
}

func (l *load) apply(c store.Change) (repeated bool) {
	return l.again(func(ctx context.Context) error {
		out, err := l.s.Apply(ctx, []store.Change{c})
		if err == nil && out[0].Verdict != store.Applied && out[0].Verdict != store.Already {
			l.Errorf("%s: %s %v", c.Name(), out[0].Verdict, out[0].Err)
		}
		return err
	})
}

func (l *load) lead() {
	e := noop(1)
	id := e[0].ID
	l.again(func(ctx context.Context) error { _, err := l.s.Submit(ctx, e); return err })
	l.again(func(ctx context.Context) error { _, err := l.s.Beat(ctx, l.key.Incarnation, time.Hour); return err })
	place := l.apply(&store.Place{ID: id, Worker: l.key, WorkerID: "n/go/0", PlacedBy: l.key.Incarnation, ClaimWithin: time.Minute})
	claim := l.apply(&store.Claim{ID: id, Attempt: 1, Worker: l.key, Generation: 1})
	finish := l.apply(&store.Finish{ID: id, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed}})
	l.mu.Lock()
	l.ids[id] = place || claim || finish
	l.mu.Unlock()
	l.done.Add(1)
}

// pass waits until the callers have made progress.
func (l *load) pass() {
	l.Helper()
	want := l.done.Load() + 3*loadCallers
	require.Eventually(l, func() bool { return l.done.Load() >= want }, patience, time.Millisecond, "work goes on")
}

// end stops the callers and checks that each change of each execution took effect once.
func (l *load) end() {
	l.Helper()
	close(l.quit)
	l.work.Wait()
	require.Positive(l, l.hurt.Load(), "calls met the fault")
	for id, repeated := range l.ids {
		var kinds []string
		l.again(func(ctx context.Context) error {
			events, err := l.s.Events(ctx, id)
			kinds = nil
			for _, e := range events {
				if repeated && e.Kind == "stale_write" {
					continue // the call that timed out arrived after its repetition and was rejected
				}
				kinds = append(kinds, e.Kind)
			}
			return err
		})
		require.Equal(l, []string{"place", "claim", "finish"}, kinds, "each change took effect once")
	}
}

// killed ends the postmaster and all backends while statements run.
func (r *rig) killed() {
	l := r.load(r.open(r.server.URL))
	for range 2 {
		l.pass()
		r.must(r.server.Kill())
		r.must(r.server.Start())
	}
	l.pass()
	l.end()
}

// backendKilled ends one backend. The postmaster then ends all others and recovers.
func (r *rig) backendKilled() {
	s := r.open(r.server.URL)
	watch := r.connect(s, nil)
	l := r.load(s)
	l.pass()
	var pid int
	require.Eventually(r, func() bool {
		err := watch.QueryRow(r.Context(), "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'troupe%' AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Client' LIMIT 1").Scan(&pid)
		return err == nil
	}, patience, time.Millisecond)
	require.Contains(r, r.server.Pids(), pid, "it is our server's")
	r.must(syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(r, func() bool { return watch.Ping(r.Context()) != nil }, patience, time.Millisecond, "all backends end")
	l.pass()
	l.end()
}

// stopped restarts the server in order.
func (r *rig) stopped() {
	l := r.load(r.open(r.server.URL))
	l.pass()
	r.must(r.server.Stop())
	r.must(r.server.Start())
	l.pass()
	l.end()
}

// frozen freezes the server: calls end by themselves, also those whose callers set no timeout.
func (r *rig) frozen() {
	s := r.open(r.server.URL)
	l := r.load(s)
	l.pass()
	r.must(r.server.Freeze())
	began := time.Now()
	var calls sync.WaitGroup
	for name, call := range map[string]func() error{
		"depths": func() error { _, err := s.Depths(context.Background()); return err },
		"beat":   func() error { _, err := s.Beat(context.Background(), l.key.Incarnation, time.Hour); return err },
		"due":    func() error { _, err := s.Due(context.Background(), store.DueQuery{Pool: "go", Limit: 1}); return err },
	} {
		calls.Go(func() {
			if err := call(); !errors.Is(err, store.ErrUnavailable) {
				r.Errorf("%s on a frozen server: %v", name, err)
			}
		})
	}
	calls.Wait()
	require.Less(r, time.Since(began), 30*time.Second, "10 s, where the machine is idle")
	r.must(r.server.Thaw())
	l.pass()
	l.end()
}

// network breaks the network in each way, and restores it.
func (r *rig) network() {
	net := proxy.New(r, servers.Loopback(r.server.Port))
	u, err := url.Parse(r.server.URL)
	r.must(err)
	u.Host = net.Addr()
	l := r.load(r.open(u.String()))
	for name, fault := range map[string]func(){
		"cut": net.Cut, "blackhole": net.Blackhole,
		"no answers": func() { net.OneWay(proxy.ToServer) }, "no requests": func() { net.OneWay(proxy.ToClient) },
	} {
		l.pass()
		before := l.hurt.Load()
		fault()
		require.Eventually(r, func() bool { return l.hurt.Load() >= before+loadCallers }, patience, time.Millisecond, name+": calls end")
		net.Heal()
	}
	l.pass()
	l.end()
}

// frozenClient lets a node that froze within a transaction, and another program, hold locks. Calls that need the row
// end soon, all others continue, and the server releases the locks of the node.
func (r *rig) frozenClient() {
	s := r.open(r.server.URL)
	key := joined(r, s)
	e := noop(2)
	_, err := s.Submit(r.Context(), e)
	r.must(err)
	place := func(i int) error {
		out, err := s.Apply(r.Context(), []store.Change{&store.Place{
			ID: e[i].ID, Worker: key, WorkerID: "n/go/0", PlacedBy: key.Incarnation, ClaimWithin: time.Nanosecond,
		}})
		if err == nil && out[0].Verdict == store.Blocked {
			return out[0].Err
		}
		if err == nil {
			require.Contains(r, []store.Verdict{store.Applied, store.Already}, out[0].Verdict)
		}
		return err
	}
	lock := func(c *pgx.Conn) {
		_, err := c.Exec(r.Context(), "BEGIN")
		r.must(err)
		_, err = c.Exec(r.Context(), "SELECT 1 FROM execution WHERE id = $1 FOR UPDATE", e[0].ID.String())
		r.must(err)
	}
	other := r.connect(s, nil)
	lock(other)
	began := time.Now()
	require.ErrorIs(r, place(0), store.ErrBlocked, "another program holds the row")
	require.Less(r, time.Since(began), 15*time.Second)
	r.must(place(1))
	overdue, err := s.Overdue(r.Context(), store.OverdueQuery{Deadline: store.ClaimBy, Limit: 10})
	r.must(err)
	require.Len(r, overdue, 1, "sweeps go on")
	_, err = other.Exec(r.Context(), "ROLLBACK")
	r.must(err)

	lock(r.connect(s, postgres.Settings(postgres.Config{Name: "frozen"})))
	require.Eventually(r, func() bool { return place(0) == nil }, patience, time.Millisecond, "the server ends the frozen node's transaction")
}

// readOnly opens a store whose transactions may only read, on an empty database and on one with a schema.
func (r *rig) readOnly() {
	const only = "default_transaction_read_only=on"
	s := r.open(r.server.URL)
	for _, schema := range []string{"nothing", s.Schema()} {
		_, err := postgres.Open(r.Context(), postgres.Config{URL: r.server.URL + "&" + only, Schema: schema})
		require.ErrorIs(r, err, store.ErrReadOnly)
		require.ErrorContains(r, err, "give the primary server, not a replica, and see that default_transaction_read_only is off")
	}
	key := joined(r, s)
	set := func(value string) {
		r.must(servers.Execute(r.server.URL, "ALTER SYSTEM SET default_transaction_read_only = "+value))
		r.must(servers.Execute(r.server.URL, "SELECT pg_reload_conf()"))
	}
	r.readsOnly(s, key, func() { set("on") })
	r.writesAgain(s, key, func() {
		r.must(servers.Execute(r.server.URL+"&default_transaction_read_only=off", "ALTER SYSTEM RESET default_transaction_read_only"))
		r.must(servers.Execute(r.server.URL, "SELECT pg_reload_conf()"))
	})
}

// replica has the server come back as a replica, which answers reads, and then be the primary again, behind the same address.
func (r *rig) replica() {
	s := r.open(r.server.URL)
	key := joined(r, s)
	var folder string
	r.must(r.connect(s, nil).QueryRow(r.Context(), "SHOW data_directory").Scan(&folder))
	r.readsOnly(s, key, func() {
		r.must(r.server.Stop())
		r.must(os.WriteFile(filepath.Join(folder, "standby.signal"), nil, 0o644))
		r.must(r.server.Start())
	})
	_, err := postgres.Open(r.Context(), postgres.Config{URL: r.server.URL, Schema: s.Schema()})
	require.ErrorIs(r, err, store.ErrReadOnly)
	require.ErrorContains(r, err, "the server is in recovery")
	r.writesAgain(s, key, func() { r.must(servers.Execute(r.server.URL, "SELECT pg_promote()")) })
}

// readsOnly has the server take no more writes. Every call says so within a while, reads too, on which nobody could build.
func (r *rig) readsOnly(s *postgres.Store, key messages.WorkerKey, fault func()) {
	fault()
	require.Eventually(r, func() bool {
		_, beat := s.Beat(r.Context(), key.Incarnation, time.Hour)
		_, submit := s.Submit(r.Context(), noop(1))
		_, read := s.Now(r.Context())
		return errors.Is(beat, store.ErrReadOnly) && errors.Is(submit, store.ErrReadOnly) && errors.Is(read, store.ErrReadOnly)
	}, patience, 10*time.Millisecond)
}

// writesAgain has the server take writes again: so do the connections of the beats and of the pool, of which none is left.
func (r *rig) writesAgain(s *postgres.Store, key messages.WorkerKey, mend func()) {
	mend()
	require.Eventually(r, func() bool {
		_, beat := s.Beat(r.Context(), key.Incarnation, time.Hour)
		_, submit := s.Submit(r.Context(), noop(1))
		return beat == nil && submit == nil
	}, patience, 10*time.Millisecond)
}

// replicaKept leaves the store's connections on a server that takes no writes, while new ones find one that does, as after a failover behind
// one address.
func (r *rig) replicaKept() {
	s := r.open(r.server.URL)
	key := joined(r, s)
	r.must(s.SpoilConnections(r.Context(), "SET default_transaction_read_only = on"))
	_, err := s.Beat(r.Context(), key.Incarnation, time.Hour)
	r.must(err)
	_, err = s.Submit(r.Context(), noop(1))
	require.ErrorIs(r, err, store.ErrReadOnly)
	_, err = s.Submit(r.Context(), noop(1))
	r.must(err)
}

// full fills a small disk in memory. It needs the right to mount; `make chaos` and CI run as root.
func (r *rig) full() {
	s := r.open(r.server.URL, "default_tablespace="+r.smallDisk())
	filler := r.connect(s, map[string]string{"default_tablespace": "small"})
	_, err := filler.Exec(r.Context(), "CREATE TABLE filler AS SELECT repeat(md5(n::text), 10) AS t FROM generate_series(1, 10000) AS n")
	r.must(err)
	submit := func() (messages.ExecutionID, error) {
		e := noop(1)
		random := make([]byte, 64<<10)
		_, _ = rand.Read(random) // it never fails
		e[0].Parameters, err = json.Marshal(random)
		r.must(err)
		_, err := s.Submit(r.Context(), e)
		return e[0].ID, err
	}
	var first messages.ExecutionID
	for n := 0; err == nil && n < 1000; n++ {
		var id messages.ExecutionID
		if id, err = submit(); n == 0 {
			first = id
		}
	}
	require.ErrorIs(r, err, store.ErrFull)
	require.ErrorContains(r, err, "free space on the server's disk")
	_, err = s.Get(r.Context(), first)
	r.must(err)
	_, err = filler.Exec(r.Context(), "DROP TABLE filler; CHECKPOINT", pgx.QueryExecModeSimpleProtocol)
	r.must(err)
	id, err := submit()
	r.must(err)
	_, err = s.Get(r.Context(), id)
	r.must(err)
}

// smallDisk makes a tablespace on a disk of 16 MB.
func (r *rig) smallDisk() string {
	dir, err := os.MkdirTemp("", "troupe-small-disk-")
	r.must(err)
	r.Cleanup(func() { r.must(os.RemoveAll(dir)) })
	var owner syscall.Stat_t
	r.must(syscall.Stat("/proc/"+strconv.Itoa(r.server.Pids()[0]), &owner))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m,mode=700,uid="+strconv.Itoa(int(owner.Uid))); err != nil {
		r.Skipf("this process may not mount a small disk: %v", err)
	}
	r.Cleanup(func() { r.must(syscall.Unmount(dir, 0)) })
	r.must(servers.Execute(r.server.URL, "CREATE TABLESPACE small LOCATION '"+dir+"'"))
	r.Cleanup(func() {
		r.must(servers.Execute(r.server.URL, "DROP SCHEMA "+filepath.Base(r.Name())+" CASCADE"))
		r.must(servers.Execute(r.server.URL, "DROP TABLESPACE small"))
	})
	return "small"
}
