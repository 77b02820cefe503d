package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// InboxClient inserts submissions into the store's inbox and reads their results, for a program that runs no node. It
// creates no schema. Its user needs SELECT on action, request, execution, outcome and submission, and INSERT on submission.
type InboxClient struct {
	cfg    Config
	pool   *pgxpool.Pool
	where  string
	prefix string // schema and dot, quoted
}

// OpenInboxClient connects to a store that nodes use. Errors: store.ErrUnavailable if the server cannot be reached,
// store.ErrNotFound if the database has no schema of Troupe.
func OpenInboxClient(ctx context.Context, cfg Config) (*InboxClient, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p, err := cfg.pool()
	if err != nil {
		return nil, err
	}
	writable(p.ConnConfig)
	what := "open " + describe(p.ConnConfig)
	pool, err := pgxpool.NewWithConfig(ctx, p)
	if err != nil {
		return nil, mapError(what, err)
	}
	c := &InboxClient{cfg: cfg, pool: pool, where: describe(p.ConnConfig), prefix: pgx.Identifier{cfg.Schema}.Sanitize() + "."}
	var has bool
	err = pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", c.prefix+"submission").Scan(&has)
	if err == nil && !has {
		err = fmt.Errorf("%s: %w: no schema of Troupe's in it: start a node there, or run `troupe migrate`", what, store.ErrNotFound)
	}
	if err != nil {
		pool.Close()
		return nil, mapError(what, err)
	}
	return c, nil
}

// Close ends the connections.
func (c *InboxClient) Close() { c.pool.Close() }

func (c *InboxClient) mapError(what string, err error) error {
	if sqlState(err) != "" && !ofStatement(err) {
		c.pool.Reset()
	}
	return mapError(what+" in "+c.where, err)
}

// sql replaces § in a statement by the schema.
func (c *InboxClient) sql(text string) string { return strings.ReplaceAll(text, "§", c.prefix) }

// Action returns the action as served by the node that was started or reloaded last, or store.ErrNotFound.
func (c *InboxClient) Action(ctx context.Context, ref string) (messages.Action, error) {
	var raw []byte
	err := c.pool.QueryRow(ctx, c.sql("SELECT definition FROM §action WHERE ref = $1 ORDER BY saved_at DESC, version DESC LIMIT 1"),
		encodeText(ref)).Scan(&raw)
	if errors.Is(err, pgx.ErrNoRows) {
		return messages.Action{}, fmt.Errorf("action %q: %w", ref, store.ErrNotFound)
	}
	if err != nil {
		return messages.Action{}, c.mapError("read action "+ref, err)
	}
	var a messages.Action
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, fmt.Errorf("definition of action %s: %w", ref, err)
	}
	return a, nil
}

// KeyHolder is the stored holder of an idempotency key.
type KeyHolder struct {
	ID messages.ExecutionID // zero: none
	// RequestHash is the stored request's hash; empty while it waits in the inbox.
	RequestHash []byte
	// Same says of a submission in the inbox that it asks for the same.
	Same bool
}

// inboxOwner is the owner of all keys of the inbox: store.KeyOwner of the executions that nodes make of its rows.
const inboxOwner = "sql"

// Holder finds the holder of the submission's idempotency key, in tx if that is not nil. An older schema has no owners
// of keys.
func (c *InboxClient) Holder(ctx context.Context, tx pgx.Tx, s *store.Submission) (KeyHolder, error) {
	var h KeyHolder
	var id pgtype.UUID
	err := c.db(tx).QueryRow(ctx, c.sql(`SELECT r.id, r.request_hash, false FROM §request r WHERE r.idempotency_key = $1
  AND coalesce(to_jsonb(r) ->> 'key_owner', split_part(r.created_by, ':', 1), '') = $5
 UNION ALL SELECT id, NULL, action = $2 AND parameters = $3::jsonb AND session IS NOT DISTINCT FROM $4
 FROM §submission WHERE state = 'waiting' AND idempotency_key = $1 LIMIT 1`),
		encodeText(s.IdempotencyKey), encodeText(s.Action), string(s.Parameters), orNull(s.Session), inboxOwner).Scan(&id, &h.RequestHash, &h.Same)
	if errors.Is(err, pgx.ErrNoRows) {
		return KeyHolder{}, nil
	}
	h.ID = id.Bytes
	return h, c.mapError("look up an idempotency key", err)
}

// Put inserts the submission into the inbox, in tx if that is not nil. It exists, and the nodes are told, once tx
// commits.
func (c *InboxClient) Put(ctx context.Context, tx pgx.Tx, s *store.Submission) error {
	var labels []byte
	if len(s.Labels) > 0 {
		var err error
		if labels, err = json.Marshal(s.Labels); err != nil {
			return err
		}
	}
	var timeout *time.Duration
	if s.Timeout != 0 {
		timeout = &s.Timeout
	}
	var runAt *time.Time
	if !s.RunAt.IsZero() {
		runAt = &s.RunAt
	}
	_, err := c.db(tx).Exec(ctx, c.sql(`INSERT INTO §submission (id, action, parameters, session, affinity, priority, run_at, idempotency_key,
 timeout, max_retries, labels, created_by, trace) VALUES ($1, $2, $3::jsonb, $4, $5, $6, $7, $8, $9::interval, $10, $11::jsonb, $12, $13)`),
		uuidOf(s.ID), encodeText(s.Action), string(s.Parameters), orNull(s.Session), orNull(string(s.Affinity)), s.Priority, runAt,
		orNull(s.IdempotencyKey), timeout, s.MaxRetries, jsonOrNull(labels), orNull(s.CreatedBy), orNull(s.Trace))
	if dataError(err) { // for example a \u0000 in the parameters, which jsonb cannot hold
		return fmt.Errorf("submit: %w: %w", store.ErrInvalid, err)
	}
	return c.mapError("submit", err)
}

// orNull returns NULL for an empty text.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	s = encodeText(s)
	return &s
}

func jsonOrNull(b []byte) *string {
	if len(b) == 0 {
		return nil
	}
	text := string(b)
	return &text
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// db returns the caller's transaction, or the client's own connections.
func (c *InboxClient) db(tx pgx.Tx) querier {
	if tx != nil {
		return tx
	}
	return c.pool
}

// Look returns the execution of a submission; its status is requested until a node takes it from the inbox. refused
// says why the nodes made none. If the id is unknown, the error is store.ErrNotFound.
func (c *InboxClient) Look(ctx context.Context, id messages.ExecutionID) (e messages.Execution, refused string, err error) {
	found, err := c.read(ctx, id)
	if err != nil || len(found) > 0 {
		return first(found), "", err
	}
	var state string
	var why *string
	err = c.pool.QueryRow(ctx, c.sql("SELECT action, state, refused, at FROM §submission WHERE id = $1"), uuidOf(id)).
		Scan(&e.Action, &state, &why, &e.RequestedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return e, "", fmt.Errorf("execution %s: %w", id, store.ErrNotFound)
	}
	if err != nil {
		return e, "", c.mapError("get execution", err)
	}
	e.ID, e.Status = id, messages.Requested
	if why != nil {
		refused = *why
	}
	if state == "accepted" { // it was taken between the two reads
		found, err = c.read(ctx, id)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("execution %s: %w", id, store.ErrNotFound) // retention deleted it
		}
		return first(found), "", err
	}
	return e, refused, nil
}

func first(list []messages.Execution) messages.Execution {
	if len(list) == 0 {
		return messages.Execution{}
	}
	return list[0]
}

func (c *InboxClient) read(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error) {
	found, err := c.pool.Query(ctx, whole+" WHERE e.id = $1", uuidOf(id))
	var out []messages.Execution
	if err == nil {
		err = each(found, func(v *scanner) {
			var r record
			scanWhole(v, &r)
			out = append(out, r.Execution)
		})
	}
	return out, c.mapError("get execution", err)
}

var errTextMode = errors.New("the transaction's connection asks for results as text: use pgx's default exec mode, or a troupe.Client, which works with every mode")

// checkMode rejects connections whose results are not in binary form.
func checkMode(tx pgx.Tx) error {
	c := tx.Conn()
	if c == nil {
		return nil
	}
	switch c.Config().DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return fmt.Errorf("submit: %w: %w", store.ErrInvalid, errTextMode)
	}
	return nil
}
