package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// lockOf returns the key of an incarnation's advisory lock: the random half of its UUID.
func lockOf(inc messages.Incarnation) int64 { return int64(binary.BigEndian.Uint64(inc[8:])) }

// presentSQL says whether the advisory lock of the node in a row is held. The server reads its locks once, and not for each row.
func presentSQL(row string) string {
	return `coalesce(` + row + `.lock IN (SELECT l.classid::bigint << 32 | l.objid::bigint FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted
  AND l.objsubid = 1 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())), false)`
}

// nodeColumns are what scanNode reads, after which present comes.
const nodeColumns = `n.incarnation, n.name, n.version, n.state, n.cordoned, n.started_at, n.beat_at, n.lease_until, n.address, n.peer_address, n.peer_scope,
 n.peer_proof, n.steady_since, n.locked_since, n.ended, `

// nodesSQL reads the nodes.
var nodesSQL = `SELECT ` + nodeColumns + presentSQL("n") + ` FROM node n`

func scanNode(v *scanner) store.Node {
	var n store.Node
	v.id((*[16]byte)(&n.Incarnation))
	n.Name, n.Version, n.State, n.Cordoned = v.text(), v.text(), store.NodeState(v.text()), v.boolean()
	n.StartedAt, n.BeatAt, n.LeaseUntil, n.Address, n.PeerAddress, n.PeerScope = v.time(), v.time(), v.time(), v.text(), v.text(), v.text()
	n.PeerProof, n.SteadySince, n.PresentSince, n.Ended, n.Present = int(v.integer()), v.time(), v.time(), store.NodeEnd(v.text()), v.boolean()
	return n
}

// Join records a new incarnation as active, with a lease, on the connection that its beats will use.
func (s *nodeRows) Join(ctx context.Context, n store.Node, lease time.Duration) error {
	return s.beats.use(ctx, "join node", func(ctx context.Context, c *pgx.Conn) error {
		if err := s.beats.hold(ctx, c, n.Incarnation); err != nil {
			return err
		}
		tag, err := c.Exec(ctx, `INSERT INTO node (incarnation, name, version, state, cordoned, started_at, beat_at, lease_until, steady_since, address, lock, peer_address, peer_scope, peer_proof)
 VALUES ($1, $2, $3, 'active', $4, coalesce($5, now()), now(), now() + $6::interval, now(), $7, $8, $9, $10, $11)
 ON CONFLICT (incarnation) DO UPDATE SET name = excluded.name, version = excluded.version, state = 'active', cordoned = excluded.cordoned,
  started_at = excluded.started_at, beat_at = now(), lease_until = excluded.lease_until, steady_since = now(), address = excluded.address,
  peer_address = excluded.peer_address, peer_scope = excluded.peer_scope, peer_proof = excluded.peer_proof WHERE node.state <> 'dead'`,
			uuidOf(n.Incarnation), encodeText(n.Name), encodeText(n.Version), n.Cordoned, timeOf(n.StartedAt), intervalOf(lease), encodeText(n.Address), lockOf(n.Incarnation),
			encodeText(n.PeerAddress), encodeText(n.PeerScope), n.PeerProof)
		if err == nil && tag.RowsAffected() == 0 {
			err = fmt.Errorf("incarnation %s: %w or declared dead", n.Incarnation, store.ErrNotFound)
		}
		return err
	})
}

// gapSQL is the greatest pause between renewals of a steady incarnation, for its row and lease: store.SteadyGap.
func gapSQL(row string) string {
	return fmt.Sprintf("((%[1]slease_until - %[1]sbeat_at) * %[2]d / 1000)", row, store.SteadyGap)
}

// beatSQL renews the lease and reads all nodes as they are then: the caller's own row comes from the update. Steadiness is lost
// by a gap, and where the server's clock has been set back by as much. $3 is the server's process that took the lock (0: none did),
// $4 whether this is the first renewal over it; a pooler in between would show as another process.
var beatSQL = `UPDATE node SET beat_at = now(), lease_until = now() + $2::interval,
 locked_since = CASE WHEN $3::int <> pg_backend_pid() THEN NULL WHEN $4::bool OR locked_since IS NULL THEN now() ELSE locked_since END,
 steady_since = CASE WHEN now() - beat_at BETWEEN -` + gapSQL("") + ` AND ` + gapSQL("") + ` THEN steady_since ELSE now() END
 WHERE incarnation = $1 AND state <> 'dead' RETURNING now(), lease_until`

// Beat renews the incarnation's lease and returns the nodes not declared dead. It uses a connection of its own, so that
// no other work delays it.
func (s *nodeRows) Beat(ctx context.Context, inc messages.Incarnation, lease time.Duration) (store.Pulse, error) {
	var p store.Pulse
	err := s.beats.use(ctx, "beat", func(ctx context.Context, c *pgx.Conn) error {
		if err := s.beats.hold(ctx, c, inc); err != nil {
			return err
		}
		p = store.Pulse{}
		b := &pgx.Batch{}
		held := s.beats.held[inc]
		b.Queue(beatSQL, uuidOf(inc), intervalOf(lease), held.pid, !held.told).Query(func(rows pgx.Rows) error {
			return each(rows, func(v *scanner) { p.At, p.Lease = v.time(), v.time() })
		})
		b.Queue(nodesSQL + " WHERE n.state <> 'dead' ORDER BY n.started_at DESC, n.incarnation DESC").Query(func(rows pgx.Rows) error {
			return each(rows, func(v *scanner) { p.Nodes = append(p.Nodes, scanNode(v)) })
		})
		if err := c.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		s.beats.told(inc)
		return nil
	})
	if err != nil {
		return store.Pulse{}, err
	}
	if p.At.IsZero() {
		return store.Pulse{}, fmt.Errorf("incarnation %s: %w or declared dead", inc, store.ErrNotFound)
	}
	if s.beats.seen(len(p.Nodes)) {
		s.notifier.tellToLook() // the other was not told what ended here since it came
	}
	return p, nil
}

// declaringSQL marks dead whom the condition on n and on the caller's own row me holds for, if the caller has just renewed its own
// lease and has been steady for its length: an outage between its renewal and this statement is as long for the others. Where the
// dead led pools it tells the others on the channel $3.
func declaringSQL(from, condition, ended string) string {
	return `WITH d AS (UPDATE node n SET state = 'dead', ended = ` + ended + ` FROM node me` + from + `
 WHERE n.state <> 'dead' AND n.incarnation <> $1 AND ` + condition + `
  AND me.incarnation = $1 AND me.state <> 'dead' AND me.beat_at BETWEEN clock_timestamp() - ` + gapSQL("me.") + ` AND clock_timestamp()
  AND me.steady_since <= now() - $2::interval RETURNING n.*),
 f AS MATERIALIZED (SELECT v.incarnation, v.pool, v.slot FROM worker v JOIN d ON d.incarnation = v.incarnation WHERE v.active FOR NO KEY UPDATE OF v SKIP LOCKED),
 w AS (UPDATE worker w SET active = false FROM f WHERE w.incarnation = f.incarnation AND w.pool = f.pool AND w.slot = f.slot),
 k AS (SELECT count(pg_notify($3, '` + payloadRouter + `')) FROM d JOIN router r ON r.incarnation = d.incarnation)
 SELECT ` + nodeColumns + `false FROM d n, k`
}

// declareSQL marks dead whose lease has run out. One whose last renewal lies its lease ahead made it before the server's clock was
// set back, and none since, while the caller did for a whole lease.
var declareSQL = declaringSQL("", `(n.lease_until < now() OR n.beat_at > clock_timestamp() + (n.lease_until - n.beat_at))`, `'`+string(store.EndLease)+`'`)

// DeclareDead marks all other incarnations with an expired lease dead, and their workers inactive.
func (s *nodeRows) DeclareDead(ctx context.Context, by messages.Incarnation, lease time.Duration) ([]store.Node, error) {
	return s.declare(ctx, declareSQL, uuidOf(by), intervalOf(lease), s.channel())
}

// declareGoneSQL marks dead those of $4 whose connection the server has ended. The caller's own lock is the proof that it has not
// ended everybody's. A renewal that comes first leaves the row with another beat_at, on which the update looks again.
var declareGoneSQL = declaringSQL(`, unnest($4::uuid[], $5::timestamptz[], $6::text[]) g (incarnation, beat_at, ended)`,
	`n.incarnation = g.incarnation AND n.beat_at = g.beat_at AND n.state = 'active' AND n.locked_since IS NOT NULL
  AND me.beat_at - n.beat_at >= (n.lease_until - n.beat_at) * `+strconv.Itoa(store.SilentShare)+` / 1000
  AND clock_timestamp() - me.beat_at >= (me.lease_until - me.beat_at) * `+strconv.Itoa(store.SettleShare)+` / 1000 AND NOT `+presentSQL("n")+`
  AND me.locked_since <= now() - $2::interval AND `+presentSQL("me"), "g.ended")

// DeclareGone marks dead, and their workers inactive, those of the given incarnations whose connection the server has ended.
func (s *nodeRows) DeclareGone(ctx context.Context, by messages.Incarnation, lease time.Duration, gone []store.Gone) ([]store.Node, error) {
	ids, beats, ends := make(column[pgtype.UUID], len(gone)), make(column[pgtype.Timestamptz], len(gone)), make([]string, len(gone))
	for i, g := range gone {
		ids[i], beats[i], ends[i] = uuidOf(g.Incarnation), timeOf(g.BeatAt), string(g.Ended)
	}
	return s.declare(ctx, declareGoneSQL, uuidOf(by), intervalOf(lease), s.channel(), ids, beats, encodeTexts(ends))
}

func (s *nodeRows) declare(ctx context.Context, sql string, args ...any) ([]store.Node, error) {
	var out []store.Node
	err := s.query(ctx, "declare nodes dead", func(v *scanner) { out = append(out, scanNode(v)) }, sql, args...)
	if err == nil && len(out) > 0 {
		s.retire(ctx, out)
	}
	return out, err
}

// retireSQL makes workers inactive that declareSQL skipped.
const retireSQL = `UPDATE worker SET active = false WHERE incarnation = ANY($1) AND active`

// retire ends the dead nodes' transactions on the server. A node that froze in the middle of a transaction may hold the
// locks of its workers' rows, and declaring it dead must not wait for them. Its workers are made inactive afterwards.
// If that fails, they are still workers of a dead node, on which no router places.
func (s *nodeRows) retire(ctx context.Context, dead []store.Node) {
	s.endDead(ctx)
	ids := make(column[pgtype.UUID], len(dead))
	for i := range dead {
		ids[i] = uuidOf(dead[i].Incarnation)
	}
	_, _ = s.exec(ctx, "retire workers", retireSQL, ids)
}

const setNodeSQL = `UPDATE node SET state = $2,
  ended = CASE WHEN $2 <> 'dead' THEN NULL WHEN state = 'dead' THEN ended ELSE '` + string(store.EndStopped) + `' END
  WHERE incarnation = $1 AND (state <> 'dead' OR $2 = 'dead') RETURNING 1`

const deactivateSQL = `UPDATE worker SET active = false WHERE incarnation = $1 AND active`

// SetNode changes an incarnation's state. If it is not active, it gives up the pools that it leads. Dead is final.
func (s *nodeRows) SetNode(ctx context.Context, inc messages.Incarnation, state store.NodeState) error {
	switch state {
	case store.NodeActive, store.NodeDraining, store.NodeDead:
	default:
		return fmt.Errorf("node state %q: %w: want active, draining or dead", state, store.ErrInvalid)
	}
	found := false
	err := s.inTransaction(ctx, "set node state", func(b *pgx.Batch) {
		found = false
		b.Queue(setNodeSQL, uuidOf(inc), string(state)).Query(func(rows pgx.Rows) error {
			return each(rows, func(*scanner) { found = true })
		})
		if state != store.NodeActive {
			// Separate statements: they see workers and pools that the node has just saved and taken, because the lock on the
			// node's row waited for that.
			b.Queue(deactivateSQL, uuidOf(inc))
			b.Queue(resignSQL, uuidOf(inc), nil, s.channel())
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("incarnation %s: %w or declared dead", inc, store.ErrNotFound)
	}
	return err
}

// CordonNode records that an operator cordons the node, or ends that.
func (s *nodeRows) CordonNode(ctx context.Context, inc messages.Incarnation, cordoned bool) error {
	n, err := s.exec(ctx, "cordon node", "UPDATE node SET cordoned = $2 WHERE incarnation = $1", uuidOf(inc), cordoned)
	if err == nil && n == 0 {
		err = fmt.Errorf("incarnation %s: %w", inc, store.ErrNotFound)
	}
	return err
}

// CordonPool records that an operator cordons the pool, or ends that.
func (s *nodeRows) CordonPool(ctx context.Context, pool string, cordoned bool) error {
	sql := "DELETE FROM pool_cordon WHERE pool = $1"
	if cordoned {
		sql = "INSERT INTO pool_cordon (pool) VALUES ($1) ON CONFLICT DO NOTHING"
	}
	_, err := s.exec(ctx, "cordon pool", sql, encodeText(pool))
	return err
}

// CordonedPools returns the cordoned pools, by name.
func (s *nodeRows) CordonedPools(ctx context.Context) ([]string, error) {
	var out []string
	err := s.query(ctx, "list cordoned pools", func(v *scanner) { out = append(out, v.text()) },
		`SELECT pool FROM pool_cordon ORDER BY pool COLLATE "C"`)
	return out, err
}

// ListNodes returns every known incarnation, newest first.
func (s *nodeRows) ListNodes(ctx context.Context) ([]store.Node, error) {
	var out []store.Node
	err := s.query(ctx, "list nodes", func(v *scanner) { out = append(out, scanNode(v)) }, nodesSQL+" ORDER BY n.started_at DESC, n.incarnation DESC")
	return out, err
}
