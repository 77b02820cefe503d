package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-run/troupe/messages/secret"
	"github.com/troupe-run/troupe/store"
)

// Config says where the store is and how it works. A zero field means its default.
type Config struct {
	URL       string // postgres://user:password@host:port/database, or libpq's keywords; PG* variables set the rest
	Schema    string // the schema that holds the tables; it is created where missing; default "public"
	EventsAll bool   // store an event for every change, the straight path too
	// Name is sent to the server as application_name, after "troupe "; a node gives its incarnation.
	Name         string
	Conns        int // connections of the pool, without one for beats, one for hints and two for long answers; default 8
	LanesMax     int // groups of write calls of one kind in progress at the same time; default 2
	WaitingMax   int // write calls of one kind that may wait before callers block; default 1024
	GroupRowsMax int // rows after which a group takes no further call; default 2000
	WalkMax      int // executions that one page of a list looks at if no index answers it; default store.ListWalk
	// ListFor is how long one page of a list looks before it ends short; default store.ListFor.
	ListFor time.Duration
}

func (c Config) withDefaults() Config {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	if c.Schema == "" {
		c.Schema = "public"
	}
	set(&c.Conns, 8)
	set(&c.LanesMax, 2)
	set(&c.WaitingMax, 1024)
	set(&c.GroupRowsMax, 2000)
	set(&c.WalkMax, store.ListWalk)
	if c.ListFor == 0 {
		c.ListFor = store.ListFor
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.URL == "" {
		errs = append(errs, errors.New("store url is empty: give postgres://user@host:5432/database"))
	}
	if strings.ContainsRune(c.Schema, 0) || len(c.Schema) > 48 {
		errs = append(errs, fmt.Errorf("store schema %q: want a name of at most 48 bytes without NUL", c.Schema))
	}
	for name, n := range map[string]int{"conns": c.Conns, "lanes_max": c.LanesMax, "waiting_max": c.WaitingMax,
		"group_rows_max": c.GroupRowsMax, "walk_max": c.WalkMax} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("store %s must be positive, got %d", name, n))
		}
	}
	if c.ListFor < 0 {
		errs = append(errs, fmt.Errorf("store list_for must be positive, got %v", c.ListFor))
	}
	return errors.Join(errs...)
}

// The server ends a longer statement, so that a frozen client keeps no lock.
const (
	statementTimeout = 5 * time.Second
	lockTimeout      = 2 * time.Second
	idleTimeout      = 10 * time.Second // within a transaction
	dialTimeout      = 3 * time.Second
	serverMin        = 150000 // server_version_num of Postgres 15
)

// settings are the settings of the connections, independent of the server's and the role's. Plans are made once for
// each statement: every statement is written for one plan, by index, for tables of any size.
func (c Config) settings() map[string]string {
	ms := func(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
	return map[string]string{
		"application_name":                    clip(strings.TrimSpace("troupe "+c.Name), 63),
		"search_path":                         pgx.Identifier{c.Schema}.Sanitize(),
		"statement_timeout":                   ms(statementTimeout),
		"lock_timeout":                        ms(lockTimeout),
		"idle_in_transaction_session_timeout": ms(idleTimeout),
		"idle_session_timeout":                "0", // the connection for hints may be silent for long
		"tcp_keepalives_idle":                 "5",
		"tcp_keepalives_interval":             "2",
		"tcp_keepalives_count":                "3",
		"tcp_user_timeout":                    "10000",
		"client_connection_check_interval":    "2000",
		"default_transaction_isolation":       "read committed",
		"timezone":                            "UTC",
		"jit":                                 "off",
		"plan_cache_mode":                     "force_generic_plan",
		"max_parallel_workers_per_gather":     "0", // a generic plan expects a tenth of all rows and would start processes for one page
		"enable_hashjoin":                     "off",
		"enable_mergejoin":                    "off",
		"enable_seqscan":                      "off",
		"enable_bitmapscan":                   "off",
	}
}

// apartConns are the connections over which long answers to callers are read. They are opened when there is one, and closed after five
// minutes without.
const apartConns = 2

// clip bounds a text to n bytes.
func clip(s string, n int) string { return s[:min(len(s), n)] }

// pool reads the URL and adds the settings.
func (c Config) pool() (*pgxpool.Config, error) {
	p, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("store url: %s", secret.Without(err.Error(), c.URL))
	}
	p.MinConns = 0
	if !strings.Contains(c.URL, "pool_max_conns") { // the URL's own setting wins
		p.MaxConns = int32(c.Conns)
	}
	p.MaxConnIdleTime, p.HealthCheckPeriod = 5*time.Minute, 30*time.Second
	p.AfterConnect = prepareUrgent
	cc := p.ConnConfig
	for k, v := range c.settings() {
		cc.RuntimeParams[k] = v
	}
	if cc.ConnectTimeout == 0 || cc.ConnectTimeout > dialTimeout {
		cc.ConnectTimeout = dialTimeout
	}
	cc.DialFunc = (&net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}).DialContext
	return p, nil
}

// writable has each new connection refused that takes no write: a replica, or a server or role that is set to read only. With several
// hosts in the URL the next one is tried. The URL's own target_session_attrs wins.
func writable(c *pgx.ConnConfig) {
	if c.ValidateConnect == nil {
		c.ValidateConnect = refuseReadOnly
	}
}

func refuseReadOnly(ctx context.Context, conn *pgconn.PgConn) error {
	r := conn.ExecParams(ctx, "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')", nil, nil, nil, nil).Read()
	switch {
	case r.Err != nil:
		return r.Err
	case len(r.Rows) != 1 || len(r.Rows[0]) != 2:
		return errors.New("the server did not say whether it takes writes")
	case string(r.Rows[0][0]) == "t":
		return &pgconn.PgError{Severity: "FATAL", Code: codeReadOnly, Message: "the server is in recovery: a replica, or a primary that has not come up yet"}
	case string(r.Rows[0][1]) == "on":
		return &pgconn.PgError{Severity: "FATAL", Code: codeReadOnly, Message: "transactions of this user on this server may only read"}
	}
	return nil
}

// urgentSQLs are the statements that somebody waits for: they store one execution, with its claim or without, and its outcome. The
// first use of a statement on a connection has the server parse it, which takes longer than a whole start on a connection that
// knows it (docs/lab/waits.md).
var urgentSQLs = []string{insertSQLs[insertKind{alike: true, placed: true}], insertSQLs[insertKind{alike: true}], leanSQLs[leanForm{}]}

// prepareUrgent has a new connection know the urgent statements. If the server refuses one, so will it when it is used, and that
// call has the error.
func prepareUrgent(ctx context.Context, conn *pgx.Conn) error {
	for _, sql := range urgentSQLs {
		if _, err := conn.Prepare(ctx, sql, sql); err != nil && conn.IsClosed() {
			return err
		}
	}
	return nil
}

// Open connects to the database, brings its schema up to this version and checks the store's requirements. Errors:
// store.ErrNewer, store.ErrUnavailable if the server cannot be reached, store.ErrReadOnly, store.ErrFull. Each names
// the server and what to do.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p, err := cfg.pool()
	if err != nil {
		return nil, err
	}
	writable(p.ConnConfig)
	if err := migrate(ctx, cfg, p.ConnConfig); err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, p)
	if err != nil {
		return nil, mapError("open "+describe(p.ConnConfig), err)
	}
	c := newCore(cfg, pool, p.ConnConfig)
	a := p.Copy()
	a.MaxConns, a.AfterConnect = apartConns, nil
	if c.apart, err = pgxpool.NewWithConfig(ctx, a); err != nil {
		pool.Close()
		return nil, mapError("open "+describe(p.ConnConfig), err)
	}
	return newStore(c, p.ConnConfig), nil
}

// describe names a server and database without secrets.
func describe(c *pgx.ConnConfig) string {
	return fmt.Sprintf("database %q on %s as user %q", c.Database, net.JoinHostPort(c.Host, fmt.Sprint(c.Port)), c.User)
}
