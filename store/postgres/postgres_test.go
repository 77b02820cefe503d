package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/store/storetest"
	"github.com/troupe-run/troupe/store/storetest/faulty"
	"github.com/troupe-run/troupe/test/servers"
)

// testsAtOnce is how many tests run at the same time if there are fewer processors and -parallel is not given: a test
// spends nearly all of its time waiting for the server, a lock or a lease. Six tests have at most some sixty
// connections.
const testsAtOnce = 6

func TestMain(m *testing.M) {
	flag.Parse()
	said := runtime.GOMAXPROCS(0) >= testsAtOnce
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", strconv.Itoa(testsAtOnce)); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// bench is a database in which each store has its own schema.
type bench struct {
	url string
	n   atomic.Int64
}

// newBench makes a database for the test. Its commits do not wait for the disk: only TestPrivateServer stops a server,
// and it uses another one.
func newBench(tb testing.TB) *bench {
	return &bench{url: servers.Postgres(tb) + "&synchronous_commit=off"}
}

// schemaPool holds the schemas of the suites. They are made once and emptied after each test, because making one takes
// longer than nearly all tests. Their number is small and does not depend on the processors: an open store has up to
// six connections, and other packages' tests use the same server.
type schemaPool struct {
	*bench
	free chan string
}

const schemasMax = 4

func newSchemaPool(tb testing.TB) *schemaPool {
	s := &schemaPool{newBench(tb), make(chan string, schemasMax)}
	for i := range schemasMax {
		s.free <- fmt.Sprintf("suite%d", i)
	}
	return s
}

// open waits for a schema and opens an empty store in it.
func (s *schemaPool) open(t *testing.T, cfg postgres.Config) *postgres.Store {
	cfg.Schema = <-s.free
	t.Cleanup(func() { // after the store's end
		require.NoError(t, servers.Execute(s.url+"&search_path="+cfg.Schema, emptySQL))
		s.free <- cfg.Schema
	})
	return s.bench.open(t, cfg)
}

// emptySQL empties a schema except for the rows that its migrations made.
const emptySQL = `DO $$ DECLARE name text; BEGIN
 FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename NOT IN ('schema_version', 'schema_step', 'schema_oldest', 'execution_status') LOOP
  EXECUTE format('DELETE FROM %I', name);
 END LOOP; END $$`

// open opens a store in a schema of its own, or in the given one.
func (d *bench) open(tb testing.TB, cfg postgres.Config) *postgres.Store {
	tb.Helper()
	cfg.URL = d.url
	if cfg.Schema == "" {
		cfg.Schema = fmt.Sprintf("s%d", d.n.Add(1))
	}
	if cfg.Conns == 0 {
		cfg.Conns = 4
	}
	s, err := postgres.Open(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

// connect opens another program's connection to the schema.
func (d *bench) connect(tb testing.TB, schema string) *pgx.Conn {
	tb.Helper()
	cfg, err := pgx.ParseConfig(d.url)
	require.NoError(tb, err)
	cfg.RuntimeParams["search_path"] = schema
	c, err := pgx.ConnectConfig(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { c.Close(tb.Context()) })
	return c
}

// put submits like another program: by an INSERT that names only the columns it sets.
func (d *bench) put(t *testing.T, s store.Store, k store.Submission) {
	c := d.connect(t, s.(*postgres.Store).Schema())
	defer c.Close(t.Context())
	nothing := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	var runAt *time.Time
	if !k.RunAt.IsZero() {
		runAt = &k.RunAt
	}
	var timeout *time.Duration
	if k.Timeout > 0 {
		timeout = &k.Timeout
	}
	_, err := c.Exec(t.Context(), `INSERT INTO submission (id, action, parameters, session, affinity, priority, run_at, idempotency_key, timeout,
 max_retries, labels, created_by, trace) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`, k.ID.String(), k.Action, k.Parameters,
		nothing(k.Session), nothing(string(k.Affinity)), k.Priority, runAt, nothing(k.IdempotencyKey), timeout, k.MaxRetries, k.Labels,
		nothing(k.CreatedBy), nothing(k.Trace))
	require.NoError(t, err)
}

// second opens another store value on a store's schema, as another node does.
func (d *bench) second(t *testing.T, s store.Store) *postgres.Store {
	return d.open(t, postgres.Config{Schema: s.(*postgres.Store).Schema()})
}

// wrapped is a faulty store with its caller, and the store that another program's inserts go to.
type wrapped struct {
	store.Store
	bare *postgres.Store
}

func TestStore(t *testing.T) {
	t.Parallel()
	d := newSchemaPool(t)
	put := func(t *testing.T, s store.Store, k store.Submission) {
		if w, ok := s.(wrapped); ok {
			s = w.bare
		}
		d.put(t, s, k)
	}
	seen := &plans{all: map[string]string{}}
	t.Cleanup(func() { seen.check(t) })
	for name, open := range map[string]storetest.Open{
		"defaults":   func(t *testing.T) store.Store { return seen.of(t, d.open(t, postgres.Config{})) },
		"events all": func(t *testing.T) store.Store { return d.open(t, postgres.Config{EventsAll: true}) },
		// The memory of one node's store is correct after another node's changes.
		"two values": func(t *testing.T) store.Store {
			first := d.open(t, postgres.Config{})
			return wrapped{storetest.Two(first, d.second(t, first)), first}
		},
		// A caller that repeats the calls that a faulty network lost.
		"under faults": func(t *testing.T) store.Store {
			s := d.open(t, postgres.Config{})
			return wrapped{faulty.Repeat(faulty.New(s, faulty.Config{Seed: 1})), s}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			switch second := func(t *testing.T, s store.Store) store.Store { return d.second(t, s) }; name {
			case "events all":
				storetest.RunChanges(t, open)
			case "two values":
				storetest.Run(t, open)
			case "defaults":
				storetest.Run(t, open, storetest.Shared(put), storetest.Second(second))
			default:
				storetest.Run(t, open, storetest.Shared(put))
			}
		})
	}
}

// plans are the plans of all statements that a suite has run.
type plans struct {
	mu  sync.Mutex
	all map[string]string
}

// of adds the plans of a store before it closes.
func (p *plans) of(t *testing.T, s *postgres.Store) *postgres.Store {
	t.Cleanup(func() {
		more, err := s.Plans(context.Background())
		require.NoError(t, err)
		p.mu.Lock()
		defer p.mu.Unlock()
		maps.Copy(p.all, more)
	})
	return s
}

// scans matches a plan that reads a whole table.
var scans = regexp.MustCompile(`Seq Scan on (execution|request|outcome|output|execution_event|execution_label|lane|session|outbox|submission|dead_letter|worker_event)\b`)

// check finds statements whose cost grows with the number of executions, whatever they look for. If only some tests
// run, there are fewer statements.
func (p *plans) check(t *testing.T) {
	if flag.Lookup("test.run").Value.String() == "" {
		require.Greater(t, len(p.all), 50, "the store prepares its statements")
	}
	for statement, plan := range p.all {
		assert.NotRegexp(t, scans, plan, statement)
	}
}
