package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// keepNodeSQL holds the state of the nodes that have the workers until the transaction ends: SetNode waits for it, and then
// sees the rows that were saved.
const keepNodeSQL = `SELECT FROM node WHERE incarnation = ANY ($1) ORDER BY incarnation FOR SHARE`

const saveWorkersSQL = `INSERT INTO worker (incarnation, pool, slot, id, generation, runtime, state, health, active, cordoned, last_heartbeat,
 heartbeat_interval, capabilities, since)
 SELECT inc, pool, slot, id, generation, runtime, state, health,
  active AND NOT EXISTS (SELECT FROM node n WHERE n.incarnation = inc AND n.state <> 'active'), cordoned,
  CASE WHEN beat IS NOT NULL THEN now() END, every, capabilities::jsonb, since FROM unnest($1::uuid[], $2::text[], $3::int[], $4::text[], $5::int[], $6::text[], $7::text[], $8::text[], $9::boolean[], $10::boolean[],
  $11::timestamptz[], $12::interval[], $13::json[], $14::timestamptz[])
  AS i (inc, pool, slot, id, generation, runtime, state, health, active, cordoned, beat, every, capabilities, since)
 ON CONFLICT (incarnation, pool, slot) DO UPDATE SET id = excluded.id, generation = excluded.generation, runtime = excluded.runtime,
  state = excluded.state, health = excluded.health, active = excluded.active, cordoned = excluded.cordoned,
  last_heartbeat = excluded.last_heartbeat, heartbeat_interval = excluded.heartbeat_interval, capabilities = excluded.capabilities,
  since = excluded.since`

// SaveWorkers inserts or replaces rows by key, all or none. Workers of a node that is not active are stored as inactive.
func (s *workerRows) SaveWorkers(ctx context.Context, workers []store.Worker) error {
	if len(workers) == 0 {
		return nil
	}
	nodes := make(column[pgtype.UUID], len(workers))
	for i := range workers {
		nodes[i] = uuidOf(workers[i].Key.Incarnation)
	}
	return s.inTransaction(ctx, "save workers", func(b *pgx.Batch) {
		b.Queue(keepNodeSQL, nodes)
		for part := range slices.Chunk(ordered(workers), insertMax) {
			b.Queue(saveWorkersSQL, workerArgs(part)...)
		}
	})
}

// ordered sorts rows by key, so that two nodes lock them in one order, and keeps the last row of each key.
func ordered(workers []store.Worker) []store.Worker {
	last := make(map[messages.WorkerKey]store.Worker, len(workers))
	for _, w := range workers {
		last[w.Key] = w
	}
	return slices.SortedFunc(maps.Values(last), func(a, b store.Worker) int { return compareKeys(a.Key, b.Key) })
}

func compareKeys(a, b messages.WorkerKey) int {
	if c := bytes.Compare(a.Incarnation[:], b.Incarnation[:]); c != 0 {
		return c
	}
	if c := strings.Compare(a.Pool, b.Pool); c != 0 {
		return c
	}
	return int(a.Slot) - int(b.Slot)
}

func workerArgs(workers []store.Worker) []any {
	n := len(workers)
	incs, pools, slots, ids := make(column[pgtype.UUID], n), make([]string, n), make([]int32, n), make([]string, n)
	generations, runtimes, states, healths := make([]int32, n), make([]string, n), make([]string, n), make([]string, n)
	active, cordoned, beats, every := make([]bool, n), make([]bool, n), make(column[pgtype.Timestamptz], n), make(column[pgtype.Interval], n)
	capabilities, since := make(blobs, n), make(column[pgtype.Timestamptz], n)
	for i := range workers {
		w := &workers[i]
		incs[i] = pgtype.UUID{Bytes: w.Key.Incarnation, Valid: true}
		pools[i], slots[i], ids[i] = encodeText(w.Key.Pool), int32(w.Key.Slot), encodeText(string(w.ID))
		generations[i], runtimes[i], states[i], healths[i] = int32(w.Generation), encodeText(string(w.Runtime)), encodeText(w.State), encodeText(w.Health)
		active[i], cordoned[i], beats[i], every[i] = w.Active, w.Cordoned, timeOf(w.Beat), intervalOf(w.BeatEvery)
		capabilities[i], since[i] = jsonOf(w.Capabilities), timeOf(w.Since)
	}
	return []any{incs, pools, slots, ids, generations, runtimes, states, healths, active, cordoned, beats, every, capabilities, since}
}

// jsonOf returns JSON that Postgres can parse. Invalid JSON becomes a JSON text of it.
func jsonOf(b json.RawMessage) []byte {
	if len(b) == 0 {
		return nil
	}
	if json.Valid(b) && !bytes.Contains(b, []byte(`\u0000`)) {
		return b
	}
	text, _ := json.Marshal(strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")) // a text always encodes
	return text
}

// heartbeatSQL collects the rows that get a beat, capabilities, or both, and then finds each by its key: a nested loop
// over the two lists would grow with the square of the workers. Their order is that in which others lock such rows. A
// draining node has no active workers: those that have not ended still beat.
const heartbeatSQL = `UPDATE worker w SET last_heartbeat = CASE WHEN d.beats AND (w.active OR d.drains) THEN now() ELSE w.last_heartbeat END,
 capabilities = CASE WHEN d.given THEN d.capabilities::jsonb ELSE w.capabilities END
 FROM (SELECT k.incarnation, k.pool, k.slot, bool_or(k.given) AS given, max(k.capabilities) AS capabilities, bool_or(k.beats) AS beats, bool_or(k.drains) AS drains FROM (
   SELECT incarnation, pool, slot, true AS given, capabilities::text AS capabilities, false AS beats, false AS drains
    FROM unnest($2::uuid[], $3::text[], $4::int[], $5::json[]) AS c (incarnation, pool, slot, capabilities)
   UNION ALL SELECT b.incarnation, b.pool, b.slot, false, NULL, true, n.drains FROM worker b,
    LATERAL (SELECT EXISTS (SELECT FROM node WHERE incarnation = $1 AND state = 'draining') AS drains) n
    WHERE b.incarnation = $1 AND (b.active OR n.drains AND b.state <> 'terminated')) k GROUP BY 1, 2, 3 ORDER BY 1, 2, 3) d
 WHERE w.incarnation = d.incarnation AND w.pool = d.pool AND w.slot = d.slot`

// Heartbeat writes the beat of the incarnation's workers, and the given capabilities.
func (s *workerRows) Heartbeat(ctx context.Context, inc messages.Incarnation, capabilities map[messages.WorkerKey]json.RawMessage) error {
	keys := slices.SortedFunc(maps.Keys(capabilities), compareKeys)
	incs, pools, slots, values := make(column[pgtype.UUID], len(keys)), make([]string, len(keys)), make([]int32, len(keys)), make(blobs, len(keys))
	for i, k := range keys {
		incs[i], pools[i], slots[i], values[i] = uuidOf(k.Incarnation), encodeText(k.Pool), int32(k.Slot), jsonOf(capabilities[k])
	}
	_, err := s.exec(ctx, "write heartbeats", heartbeatSQL, uuidOf(inc), incs, pools, slots, values)
	return err
}

const (
	transitionSQL = `INSERT INTO worker_event (incarnation, pool, slot, generation, at, before, after, reason, lasted, metadata)
 VALUES ($1, $2, $3, $4, coalesce($5, now()), $6, $7, $8, $9, $10)`
	movedSQL = `UPDATE worker SET state = $4, health = $5, generation = $6, since = coalesce($7, now())
 WHERE incarnation = $1 AND pool = $2 AND slot = $3 AND generation <= $6`
)

// RecordTransitions appends worker events and updates the rows. healths[i] belongs to events[i].
func (s *workerRows) RecordTransitions(ctx context.Context, events []store.WorkerEvent, healths []string) error {
	if len(healths) != len(events) {
		return fmt.Errorf("record transitions: %w: %d events with %d healths", store.ErrInvalid, len(events), len(healths))
	}
	if len(events) == 0 {
		return nil
	}
	return s.inTransaction(ctx, "record transitions", func(b *pgx.Batch) {
		for i := range events {
			e := &events[i]
			inc, pool, slot := uuidOf(e.Key.Incarnation), encodeText(e.Key.Pool), int32(e.Key.Slot)
			b.Queue(transitionSQL, inc, pool, slot, int32(e.Generation), timeOf(e.At), encodeText(e.From), encodeText(e.To),
				encodeText(e.Reason), intervalOf(e.Lasted), jsonOf(e.Metadata))
			b.Queue(movedSQL, inc, pool, slot, encodeText(e.To), encodeText(healths[i]), int32(e.Generation), timeOf(e.At))
		}
	})
}

// CordonWorker records that an operator cordons the worker, or ends that. ErrNotFound: the worker does not exist.
func (s *workerRows) CordonWorker(ctx context.Context, key messages.WorkerKey, cordoned bool) error {
	n, err := s.exec(ctx, "cordon worker", "UPDATE worker SET cordoned = $4 WHERE incarnation = $1 AND pool = $2 AND slot = $3",
		uuidOf(key.Incarnation), encodeText(key.Pool), int32(key.Slot), cordoned)
	if err == nil && n == 0 {
		err = fmt.Errorf("worker slot %d of pool %q on %s: %w", key.Slot, key.Pool, key.Incarnation, store.ErrNotFound)
	}
	return err
}

// ListWorkers returns the rows of incarnations that are not dead, by id.
func (s *workerRows) ListWorkers(ctx context.Context, pool string) ([]store.Worker, error) {
	var out []store.Worker
	err := s.query(ctx, "list workers", func(v *scanner) {
		var k store.Worker
		v.id((*[16]byte)(&k.Key.Incarnation))
		k.Key.Pool, k.Key.Slot, k.ID = v.text(), messages.Slot(v.integer()), messages.WorkerID(v.text())
		k.Generation, k.Runtime, k.State, k.Health = messages.Generation(v.integer()), messages.Runtime(v.text()), v.text(), v.text()
		k.Active, k.Cordoned, k.Beat, k.BeatEvery = v.boolean(), v.boolean(), v.time(), v.duration()
		k.Capabilities, k.Since = v.bytes(), v.time()
		out = append(out, k)
	}, `SELECT w.incarnation, w.pool, w.slot, w.id, w.generation, w.runtime, w.state, w.health, w.active, w.cordoned, w.last_heartbeat,
 w.heartbeat_interval, w.capabilities::text, w.since FROM worker w JOIN node n ON n.incarnation = w.incarnation
 WHERE n.state <> 'dead' AND ($1 = '' OR w.pool = $1) ORDER BY w.id COLLATE "C", w.slot`, encodeText(pool))
	return out, err
}

// EndedWorkers returns the workers of a dead incarnation, by id.
func (s *workerRows) EndedWorkers(ctx context.Context, inc messages.Incarnation) ([]store.Worker, error) {
	var out []store.Worker
	err := s.query(ctx, "list ended workers", func(v *scanner) {
		k := store.Worker{Key: messages.WorkerKey{Incarnation: inc}}
		k.Key.Pool, k.Key.Slot, k.ID, k.Runtime = v.text(), messages.Slot(v.integer()), messages.WorkerID(v.text()), messages.Runtime(v.text())
		k.State = v.text()
		out = append(out, k)
	}, `SELECT w.pool, w.slot, w.id, w.runtime, w.state FROM worker w JOIN node n ON n.incarnation = w.incarnation
 WHERE w.incarnation = $1 AND n.state = 'dead' ORDER BY w.id COLLATE "C", w.slot`, uuidOf(inc))
	return out, err
}

// WorkerEvents returns the newest events of one worker, newest first.
func (s *workerRows) WorkerEvents(ctx context.Context, key messages.WorkerKey, limit int) ([]store.WorkerEvent, error) {
	var out []store.WorkerEvent
	err := s.query(ctx, "read worker events", func(v *scanner) {
		out = append(out, store.WorkerEvent{Key: key, Generation: messages.Generation(v.integer()), At: v.time(), From: v.text(),
			To: v.text(), Reason: v.text(), Lasted: v.duration(), Metadata: v.bytes()})
	}, `SELECT generation, at, before, after, reason, lasted, metadata FROM worker_event
 WHERE incarnation = $1 AND pool = $2 AND slot = $3 ORDER BY n DESC LIMIT $4`, uuidOf(key.Incarnation), encodeText(key.Pool), int32(key.Slot), pageSize(limit))
	return out, err
}

// SaveActions records the actions that this node serves.
func (s *workerRows) SaveActions(ctx context.Context, actions []messages.Action) error {
	definitions := make(blobs, len(actions))
	for i := range actions {
		b, err := json.Marshal(&actions[i])
		if err != nil {
			return fmt.Errorf("action %s: %w", actions[i].Ref, err)
		}
		definitions[i] = jsonOf(b)
	}
	if len(actions) == 0 {
		return nil
	}
	return s.inTransaction(ctx, "save actions", func(b *pgx.Batch) {
		for i := range actions {
			a := &actions[i]
			b.Queue(`INSERT INTO action (ref, version, pool, timeout_seconds, max_retries, definition, saved_at)
 VALUES ($1, $2, $3, nullif($4::numeric, 0), $5, $6, now()) ON CONFLICT (ref, version) DO UPDATE SET pool = excluded.pool,
 timeout_seconds = excluded.timeout_seconds, max_retries = excluded.max_retries, definition = excluded.definition, saved_at = now()`,
				encodeText(a.Ref), encodeText(a.Version), encodeText(a.Pool), fmt.Sprintf("%.6f", a.Timeout.Seconds()), int32(a.MaxRetries), definitions[i])
		}
	})
}
