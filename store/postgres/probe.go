package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Report describes a server and database for a person to judge. Probe makes it.
type Report struct {
	Where   string // the server and database, without secrets
	Version string // the server's
	// Unfit is why the server or database cannot hold the store; nil: it can.
	Unfit error
	// Standby: the server is a replica, which accepts no writes.
	Standby bool
	// Pooled: a pooler answers instead of the server.
	Pooled bool
	// Dropped are the settings of a connection that the server does not have as they were asked for: a pooler has left them out.
	Dropped []string
	// Schema is the version in the database, 0: none yet. Newest is the version that this program knows.
	Schema, Newest int
	// Missing are steps that only add to the schema and are not made; Later are made steps that this program does not know. Refused is why
	// this program is too old for the schema; nil: it is not.
	Missing, Later []string
	Refused        error
	// MayCreate: the user may create the schema's tables.
	MayCreate bool
	// Forbidden lists the tables and sequences of the schema that the user may not read and write.
	Forbidden []string
	// Settings are the server's fsync and full_page_writes, and this user's synchronous_commit.
	Settings map[string]string
	// ConnectionsFree is how many more clients the server accepts from users who are not superusers.
	ConnectionsFree int
	// Ahead is how far this machine's clock is ahead of the server's. AheadError is the greatest error of that.
	Ahead, AheadError time.Duration
	// Nodes are the incarnations not declared dead, and Now is the server's clock when they were read.
	Nodes []store.Node
	Now   time.Time
	// Gone are workers of incarnations that ended within the last day, newest first, at most goneMax.
	Gone []WorkerRow
	// Live has one worker of each pool on each live node, at most liveMax.
	Live []WorkerRow
	// Notices says how many notices are not told yet, and how old they are.
	Notices store.NoticesPending
	// Webhooks says how many outcomes are not told by HTTP.
	Webhooks store.WebhookCounts
}

// WorkerRow names a worker.
type WorkerRow struct {
	ID  messages.WorkerID
	Key messages.WorkerKey
}

// goneMax and liveMax bound the workers that Probe lists.
const (
	goneMax = 1000
	liveMax = 200
)

// Probe connects once and collects what a person should know before a node runs there. It changes nothing. An error
// means that it could not connect, or that ctx ended.
func Probe(ctx context.Context, cfg Config) (Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return Report{}, err
	}
	p, err := cfg.pool()
	if err != nil {
		return Report{}, err
	}
	r := Report{Where: describe(p.ConnConfig), Settings: map[string]string{}}
	conn, err := pgx.ConnectConfig(ctx, p.ConnConfig)
	if err != nil {
		return r, mapError("connect to "+r.Where, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	probe := prober{conn: conn, cfg: cfg, report: &r}
	for _, look := range []func(context.Context) error{probe.server, probe.clock, probe.schema, probe.fleet, probe.notices, probe.webhooks} {
		if err := look(ctx); err != nil {
			return r, mapError("look at "+r.Where, err)
		}
	}
	return r, nil
}

type prober struct {
	conn   *pgx.Conn
	cfg    Config
	report *Report
}

// server reads the server's version and settings.
func (p *prober) server(ctx context.Context) error {
	r := p.report
	if r.Unfit = checkServer(ctx, p.conn); r.Unfit != nil && sqlState(r.Unfit) != "" {
		return r.Unfit // the query itself failed
	}
	var pid, free int64
	err := p.conn.QueryRow(ctx, `SELECT current_setting('server_version'), pg_is_in_recovery(), pg_backend_pid()::bigint,
 current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
  - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')`).Scan(&r.Version, &r.Standby, &pid, &free)
	if err != nil {
		return err
	}
	r.Pooled, r.ConnectionsFree = pid != int64(p.conn.PgConn().PID()), int(max(free, 0))
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		var value string
		if err := p.conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return err
		}
		r.Settings[name] = value
	}
	return p.dropped(ctx)
}

// dropped compares the settings that the connection asked for with those that it has. Those of TCP are none of a unix socket's.
func (p *prober) dropped(ctx context.Context) error {
	asked := p.cfg.settings()
	rows, err := p.conn.Query(ctx, "SELECT name, setting FROM pg_settings WHERE name = ANY($1) AND name NOT LIKE 'tcp\\_%' ORDER BY name",
		slices.Collect(maps.Keys(asked)))
	if err != nil {
		return err
	}
	var name, has string
	_, err = pgx.ForEachRow(rows, []any{&name, &has}, func() error {
		if !strings.EqualFold(has, asked[strings.ToLower(name)]) {
			p.report.Dropped = append(p.report.Dropped, name)
		}
		return nil
	})
	return err
}

// clockLooks is how often the clocks are compared. The comparison with the shortest round trip counts.
const clockLooks = 5

// clock compares this machine's clock with the server's.
func (p *prober) clock(ctx context.Context) error {
	for i := range clockLooks {
		var theirs time.Time
		before := time.Now()
		if err := p.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&theirs); err != nil {
			return err
		}
		half := time.Since(before) / 2
		if i == 0 || half < p.report.AheadError {
			p.report.Ahead, p.report.AheadError = before.Add(half).Sub(theirs), half
		}
	}
	return nil
}

// schema reads the schema's version and the user's rights on it.
func (p *prober) schema(ctx context.Context) error {
	r := p.report
	all, err := steps()
	if err != nil {
		return err
	}
	r.Newest = all[len(all)-1].version
	err = p.conn.QueryRow(ctx, `SELECT coalesce((SELECT has_schema_privilege(oid, 'CREATE') AND has_schema_privilege(oid, 'USAGE')
 FROM pg_namespace WHERE nspname = $1), has_database_privilege(current_database(), 'CREATE'))`, p.cfg.Schema).Scan(&r.MayCreate)
	if err != nil {
		return err
	}
	if r.Forbidden, err = p.forbidden(ctx); err != nil || len(r.Forbidden) > 0 {
		return err
	}
	if r.Schema, err = version(ctx, p.conn); err != nil {
		return err
	}
	return p.steps(ctx)
}

// steps compares the steps that only add to the schema.
func (p *prober) steps(ctx context.Context) error {
	known, err := store.StepsIn(additions, "steps")
	if err != nil {
		return err
	}
	made, oldest, err := madeSteps(ctx, p.conn)
	if err != nil {
		return err
	}
	for _, s := range store.MissingSteps(known, made) {
		p.report.Missing = append(p.report.Missing, s.Name)
	}
	for _, name := range made {
		if !slices.ContainsFunc(known, func(s store.Step) bool { return s.Name == name }) {
			p.report.Later = append(p.report.Later, name)
		}
	}
	p.report.Refused = oldest.Check(p.report.Where)
	return nil
}

// forbidden lists the parts of the schema that the user may not use. The catalogue shows them whatever the user's
// rights are.
func (p *prober) forbidden(ctx context.Context) ([]string, error) {
	rows, err := p.conn.Query(ctx, `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1
 AND (c.relkind = 'S' AND NOT has_sequence_privilege(c.oid, 'USAGE') OR c.relkind = 'r' AND NOT (has_schema_privilege(n.oid, 'USAGE')
  AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
  AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')))
 AND EXISTS (SELECT FROM pg_class v WHERE v.relnamespace = n.oid AND v.relname = 'schema_version') ORDER BY c.relname`, p.cfg.Schema)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// probeNodesSQL reads the nodes in a schema of any version. Columns of later versions read as empty if they are
// missing. It does not ask for the nodes' connections.
const probeNodesSQL = `SELECT n.incarnation, n.name, n.version, n.state, n.cordoned, n.started_at, n.beat_at, n.lease_until, n.address,
 to_jsonb(n) ->> 'peer_address', to_jsonb(n) ->> 'peer_scope', (to_jsonb(n) ->> 'peer_proof')::smallint, n.steady_since,
 (to_jsonb(n) ->> 'locked_since')::timestamptz, to_jsonb(n) ->> 'ended', false FROM node n WHERE n.state <> 'dead' ORDER BY n.started_at DESC, n.incarnation DESC`

// notices reads the outbox. A schema of an older version has none.
func (p *prober) notices(ctx context.Context) error {
	var has bool
	if p.report.Schema == 0 {
		return nil
	}
	if err := p.conn.QueryRow(ctx, "SELECT to_regclass('outbox') IS NOT NULL").Scan(&has); err != nil || !has {
		return err
	}
	rows, err := p.conn.Query(ctx, pendingNoticesSQL, pendingMax)
	if err != nil {
		return err
	}
	return each(rows, func(v *scanner) { p.report.Notices = scanPending(v) })
}

// webhooks counts what is not told by HTTP. A schema of an older version has none.
func (p *prober) webhooks(ctx context.Context) error {
	var has bool
	if p.report.Schema == 0 {
		return nil
	}
	if err := p.conn.QueryRow(ctx, "SELECT to_regclass('webhook') IS NOT NULL").Scan(&has); err != nil || !has {
		return err
	}
	rows, err := p.conn.Query(ctx, countWebhooksSQL, store.WebhookCountMax)
	if err != nil {
		return err
	}
	return each(rows, func(v *scanner) { p.report.Webhooks = scanWebhookCounts(v) })
}

// fleet reads the live nodes, with a worker of each pool, and the ended workers whose queues may be left.
func (p *prober) fleet(ctx context.Context) error {
	r := p.report
	if r.Schema == 0 {
		return nil
	}
	if err := p.conn.QueryRow(ctx, "SELECT now()").Scan(&r.Now); err != nil {
		return err
	}
	rows, err := p.conn.Query(ctx, probeNodesSQL)
	if err != nil {
		return err
	}
	if err := each(rows, func(v *scanner) { r.Nodes = append(r.Nodes, scanNode(v)) }); err != nil {
		return err
	}
	rows, err = p.conn.Query(ctx, `SELECT w.id, w.incarnation, w.pool, w.slot FROM node n JOIN worker w ON w.incarnation = n.incarnation
 WHERE (n.state = 'dead' OR n.lease_until < now()) AND n.beat_at > now() - interval '1 day'
 ORDER BY n.beat_at DESC, n.incarnation, w.pool, w.slot LIMIT $1`, goneMax)
	if err != nil {
		return err
	}
	if err := each(rows, func(v *scanner) { r.Gone = append(r.Gone, scanWorkerRow(v)) }); err != nil {
		return err
	}
	rows, err = p.conn.Query(ctx, `SELECT DISTINCT ON (w.incarnation, w.pool) w.id, w.incarnation, w.pool, w.slot
 FROM node n JOIN worker w ON w.incarnation = n.incarnation
 WHERE n.state = 'active' AND n.lease_until >= now() AND w.active
 ORDER BY w.incarnation, w.pool, w.slot LIMIT $1`, liveMax)
	if err != nil {
		return err
	}
	return each(rows, func(v *scanner) { r.Live = append(r.Live, scanWorkerRow(v)) })
}

func scanWorkerRow(v *scanner) (w WorkerRow) {
	w.ID = messages.WorkerID(v.text())
	v.id((*[16]byte)(&w.Key.Incarnation))
	w.Key.Pool, w.Key.Slot = v.text(), messages.Slot(v.integer())
	return w
}

// String returns the report's first line: the server and its version.
func (r Report) String() string {
	if r.Version == "" {
		return r.Where
	}
	version, _, _ := strings.Cut(r.Version, " ")
	return fmt.Sprintf("Postgres %s, %s", version, r.Where)
}
