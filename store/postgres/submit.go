package postgres

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// submitCall is one call of Submit in a lane.
type submitCall struct {
	ctx        context.Context
	executions []messages.Execution
	places     placesByID
	out        []store.Submitted
	err        error
	done       chan struct{}
}

func (c *submitCall) context() context.Context { return c.ctx }
func (c *submitCall) finished() chan struct{}  { return c.done }
func (c *submitCall) fail(err error)           { c.err = err }

// Submit stores the executions as requested, all or none. An execution without an id gets one. If the id is stored with
// the same request, Submit returns the stored execution, so a call may be repeated.
func (s *submitter) Submit(ctx context.Context, executions []messages.Execution) ([]store.Submitted, error) {
	return s.SubmitPlaced(ctx, executions, nil)
}

// SubmitPlaced is Submit that inserts executions with a placement as scheduled, or as running: the row is written once instead
// of twice or more before its run begins.
func (s *submitter) SubmitPlaced(ctx context.Context, executions []messages.Execution, places []*store.Place) ([]store.Submitted, error) {
	if err := checkSubmit(executions); err != nil || len(executions) == 0 {
		return nil, err
	}
	if err := store.CheckPlaced(executions, places); err != nil {
		return nil, err
	}
	c := &submitCall{ctx: ctx, executions: executions, places: byID(places), done: make(chan struct{})}
	if err := s.submits.do(ctx, "submit", c); err != nil {
		return nil, err
	}
	if c.err != nil {
		return nil, s.mapError("submit", c.err)
	}
	return c.out, nil
}

// placesByID are the placements of a call, or of a group of calls; nil: none.
type placesByID map[messages.ExecutionID]*store.Place

func byID(places []*store.Place) placesByID {
	if len(places) == 0 {
		return nil
	}
	m := make(placesByID, len(places))
	for _, p := range places {
		m[p.ID] = p
	}
	return m
}

func checkSubmit(executions []messages.Execution) error {
	if len(executions) > messages.BatchMax {
		return fmt.Errorf("submit: %w: at most %d executions in one call, got %d", store.ErrInvalid, messages.BatchMax, len(executions))
	}
	for i := range executions {
		if err := store.Check(&executions[i]); err != nil {
			return fmt.Errorf("submit execution %d of %d: %w", i+1, len(executions), err)
		}
	}
	return nil
}

// submitTogether stores the calls of a group, or none of them.
func (s *submitter) submitTogether(ctx context.Context, group []*submitCall) error {
	var all []messages.Execution
	places := placesByID{}
	for _, c := range group {
		all = append(all, c.executions...)
		maps.Copy(places, c.places)
	}
	var existing map[int]messages.Execution
	if keyed(all) {
		var err error
		if existing, err = findExisting(ctx, s.pool, "", all); err != nil {
			return err
		}
	}
	stored, err := insertMissing(all, existing, func(fresh []messages.Execution) ([]store.Submitted, error) {
		return s.store(ctx, fresh, places)
	})
	if err != nil {
		return err
	}
	for _, c := range group {
		c.out, stored = stored[:len(c.executions):len(c.executions)], stored[len(c.executions):]
	}
	return nil
}

func keyed(executions []messages.Execution) bool {
	for i := range executions {
		if executions[i].IdempotencyKey != "" {
			return true
		}
	}
	return false
}

// store inserts the executions in a transaction of its own, which is one round trip.
func (s *submitter) store(ctx context.Context, executions []messages.Execution, places placesByID) ([]store.Submitted, error) {
	out, err := insertAll(ctx, s.pool, insertion{places: places, events: s.cfg.EventsAll}, executions)
	if err == nil && !s.beats.alone() { // the caller wakes this node's routers
		s.notifier.requested(out)
	}
	if err == nil && len(executions) <= rememberedMax/4 { // of more, the first would be forgotten before they are claimed
		for i := range out {
			s.rememberStored(out[i].Execution)
		}
	}
	return out, err
}

// sender is a pool, a connection or a transaction.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// racesMax bounds how often a submit looks again because another caller took one of its keys meanwhile.
const racesMax = 8

// submitOne stores one call. Another caller can take a key between the look and the insert. Then the insert fails, and
// the next look finds the holder.
func (s *submitter) submitOne(ctx context.Context, executions []messages.Execution, places placesByID) ([]store.Submitted, error) {
	look := keyed(executions)
	var err error
	for range racesMax {
		var existing map[int]messages.Execution
		if look {
			if existing, err = findExisting(ctx, s.pool, "", executions); err != nil {
				return nil, err
			}
		}
		var out []store.Submitted
		out, err = insertMissing(executions, existing, func(fresh []messages.Execution) ([]store.Submitted, error) {
			return s.store(ctx, fresh, places)
		})
		if sqlState(err) != codeUnique && !conflicting(err) {
			return out, err
		}
		look = true
	}
	return nil, fmt.Errorf("%w: another caller keeps taking the same keys: %w", store.ErrUnavailable, err)
}

// SubmitTx stores the executions in the caller's own transaction, as Submit does: they exist, and nodes are told, once
// it commits. Until then it delays no work of the nodes; only a submission of the same key waits for it. If a
// transaction that commits at the same time takes a key or id, or on any other error, the caller must roll its
// transaction back. The connection must be to the store's database.
func (s *submitter) SubmitTx(ctx context.Context, tx pgx.Tx, executions []messages.Execution) ([]store.Submitted, error) {
	if err := checkSubmit(executions); err != nil || len(executions) == 0 {
		return nil, err
	}
	if err := checkMode(tx); err != nil {
		return nil, err
	}
	schema := pgx.Identifier{s.cfg.Schema}.Sanitize() + "."
	existing, err := findExisting(ctx, tx, schema, executions)
	if err != nil {
		return nil, s.mapError("submit", err)
	}
	out, err := insertMissing(executions, existing, func(fresh []messages.Execution) ([]store.Submitted, error) {
		return insertAll(ctx, tx, insertion{callerTx: &callerTx{schema, s.channel()}}, fresh)
	})
	return out, s.mapError("submit", err)
}

// insertMissing stores the executions of the batch that match no stored one and no earlier one of the batch.
func insertMissing(executions []messages.Execution, existing map[int]messages.Execution, insert func([]messages.Execution) ([]store.Submitted, error)) ([]store.Submitted, error) {
	out := make([]store.Submitted, len(executions))
	var fresh []messages.Execution
	at := make([]int, len(executions)) // its place in fresh, or minus the place of its twin minus one
	keys := map[ownedKey]int{}
	for i := range executions {
		e := &executions[i]
		if old, ok := existing[i]; ok {
			out[i] = store.Submitted{Execution: old, Existing: true}
			continue
		}
		if j, ok := keys[ownedKeyOf(e)]; ok && e.IdempotencyKey != "" {
			if !sameRequest(e, &executions[j]) {
				return nil, &store.ConflictError{Key: e.IdempotencyKey, Holder: executions[j].ID}
			}
			at[i] = -j - 1
			continue
		}
		keys[ownedKeyOf(e)] = i
		fresh = append(fresh, *e)
		at[i] = len(fresh)
	}
	if len(fresh) == 0 {
		return out, nil
	}
	stored, err := insert(fresh)
	if err != nil {
		return nil, err
	}
	for i, k := range at {
		switch {
		case k > 0:
			out[i] = stored[k-1]
		case k < 0:
			out[i] = store.Submitted{Execution: out[-k-1].Execution, Existing: true}
		}
	}
	return out, nil
}

// ownedKey is an idempotency key of an owner.
type ownedKey struct{ key, owner string }

func ownedKeyOf(e *messages.Execution) ownedKey { return ownedKey{e.IdempotencyKey, store.KeyOwner(e)} }

// existingSQL first goes from the keys to the ids, because only an id leads from a request to its execution. It finds
// the keys that any of the owners has. If several owners submit at once, that is more than each asked for.
var existingSQL = "SELECT r.key_owner, " + strings.TrimPrefix(whole, "SELECT ") + ` WHERE e.id = ANY($1 || ARRAY(SELECT r.id FROM request r WHERE r.idempotency_key = ANY($2)
 AND ` + keyOwner + ` = ANY($3)))`

// findExisting finds the stored executions that match some of the batch, by idempotency key or by id. If a key or id
// was used for another request, it returns an error.
func findExisting(ctx context.Context, db sender, schema string, executions []messages.Execution) (map[int]messages.Execution, error) {
	var keys, owners []string
	var ids []messages.ExecutionID
	for i := range executions {
		if k := ownedKeyOf(&executions[i]); k.key != "" {
			keys = append(keys, encodeText(k.key))
			if owner := encodeText(k.owner); !slices.Contains(owners, owner) {
				owners = append(owners, owner)
			}
		}
		ids = append(ids, executions[i].ID)
	}
	rows, err := db.Query(ctx, qualify(existingSQL, schema), idsOf(ids), keys, owners)
	if err != nil {
		return nil, err
	}
	byID, byKey := map[messages.ExecutionID]messages.Execution{}, map[ownedKey]messages.Execution{}
	err = each(rows, func(s *scanner) {
		var r record
		r.KeyOwner = s.text()
		scanWhole(s, &r)
		byID[r.ID] = r.Execution
		if r.IdempotencyKey != "" {
			byKey[ownedKeyOf(&r.Execution)] = r.Execution
		}
	})
	if err != nil {
		return nil, err
	}
	found := map[int]messages.Execution{}
	for i := range executions {
		e := &executions[i]
		old, ok := byKey[ownedKeyOf(e)]
		if !ok {
			old, ok = byID[e.ID]
		}
		if !ok {
			continue
		}
		if !sameRequest(e, &old) {
			return nil, conflict(e, old.ID)
		}
		found[i] = old
	}
	return found, nil
}

func conflict(e *messages.Execution, holder messages.ExecutionID) error {
	if e.IdempotencyKey != "" {
		return &store.ConflictError{Key: e.IdempotencyKey, Holder: holder}
	}
	return fmt.Errorf("execution id %s: %w: submit with a new id", holder, store.ErrConflict)
}

// sameRequest compares the hashes of the requests; without one, the requests.
func sameRequest(a, b *messages.Execution) bool {
	if len(a.RequestHash) > 0 || len(b.RequestHash) > 0 {
		return bytes.Equal(a.RequestHash, b.RequestHash)
	}
	return a.Action == b.Action && a.Session == b.Session && bytes.Equal(a.Parameters, b.Parameters)
}

// qualify puts the schema before the tables of a statement, for a connection that is not the store's own.
func qualify(sql, schema string) string {
	if schema == "" {
		return sql
	}
	for _, word := range []string{"FROM ", "JOIN ", "INTO ", "UPDATE "} {
		for _, table := range []string{"execution", "request", "outcome", "execution_label", "webhook"} {
			sql = strings.ReplaceAll(sql, word+table+" ", word+schema+table+" ")
		}
	}
	return strings.ReplaceAll(sql, "nextval('execution_seq')", "nextval('"+strings.ReplaceAll(schema, "'", "''")+"execution_seq')")
}
