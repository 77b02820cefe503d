package postgres

import (
	"cmp"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
)

// A lane is a session's row. Every transaction that changes the session's executions first locks it, in order of name,
// so that two such transactions never deadlock. A later statement of the transaction sees all commits before the lock.
// It counts how many executions are on workers and finds the next one. An execution with turn 3 was given back and
// waits for its run_at. It keeps its place, so while it is first the lane has no head (store.Head).
const (
	lockLanes = ` ON CONFLICT (pool, session) DO UPDATE SET active = lane.active`

	lockNamed = `INSERT INTO lane (pool, session) SELECT * FROM unnest($1::text[], $2::text[]) AS d (pool, session) ORDER BY 1, 2` + lockLanes

	lockByID = `INSERT INTO lane (pool, session) SELECT DISTINCT e.pool, e.session FROM execution e
 WHERE e.id = ANY($1) AND e.session IS NOT NULL ORDER BY 1, 2` + lockLanes

	lockSessions = `SELECT 1 FROM session s WHERE (s.pool, s.session) IN (SELECT e.pool, e.session FROM execution e
 WHERE e.id = ANY($1) AND e.session IS NOT NULL) ORDER BY s.pool, s.session FOR UPDATE`

	recountLanes = `UPDATE lane l SET active = d.active, head = d.id, head_seq = d.seq, head_priority = d.priority
 FROM (SELECT n.pool, n.session, a.active, h.id, h.seq, h.priority
  FROM (SELECT DISTINCT e.pool, e.session FROM execution e WHERE e.id = ANY($1) AND e.session IS NOT NULL) n
  CROSS JOIN LATERAL (SELECT count(*)::int AS active FROM execution b WHERE b.pool = n.pool AND b.session = n.session AND b.on_worker IS NOT NULL) a
  LEFT JOIN LATERAL (SELECT * FROM (SELECT t.id, t.seq, t.priority, t.turn FROM execution t WHERE t.pool = n.pool AND t.session = n.session
   AND t.turn IS NOT NULL AND a.active = 0 ORDER BY t.seq LIMIT 1) f WHERE f.turn < 3) h ON true) d
 WHERE l.pool = d.pool AND l.session = d.session`
)

// affected collects the sessions and pools that new executions affect.
type affected struct {
	sessions map[[2]string]bool
	pools    map[string]bool
	ids      column[pgtype.UUID] // of executions with a session
}

func (t *affected) execution(e *messages.Execution) {
	if t.pools == nil {
		t.pools, t.sessions = map[string]bool{}, map[[2]string]bool{}
	}
	t.pools[e.Pool] = true
	if e.Session != "" {
		t.sessions[[2]string{encodeText(e.Pool), encodeText(e.Session)}] = true
		t.ids = append(t.ids, uuidOf(e.ID))
	}
}

// lock locks the lanes before the insert.
func (t *affected) lock(batch *pgx.Batch) {
	if len(t.sessions) == 0 {
		return
	}
	names := slices.SortedFunc(maps.Keys(t.sessions), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	pools, sessions := make([]string, len(names)), make([]string, len(names))
	for i, n := range names {
		pools[i], sessions[i] = n[0], n[1]
	}
	batch.Queue(lockNamed, pools, sessions)
}

// recount counts the lanes again after the insert.
func (t *affected) recount(batch *pgx.Batch) {
	if len(t.ids) > 0 {
		batch.Queue(recountLanes, t.ids)
	}
}

// notify tells the nodes which pools have new executions, once for each pool.
func (t *affected) notify(batch *pgx.Batch, channel string) {
	payloads := make([]string, 0, len(t.pools))
	for p := range t.pools {
		payloads = append(payloads, payloadRequested+encodeText(p))
	}
	queueNotify(batch, channel, payloads)
}

// The starts of payloads.
const (
	payloadRequested = "pool "
	payloadCancel    = "cancel "
	payloadFinished  = "done "
	payloadInbox     = "inbox"
	payloadRouter    = "router"
	payloadLook      = "look"
)

const notifySQL = "SELECT pg_notify($1, w) FROM unnest($2::text[]) AS w"

func queueNotify(batch *pgx.Batch, channel string, payloads []string) {
	if len(payloads) > 0 {
		batch.Queue(notifySQL, channel, payloads)
	}
}

// finishedMax bounds the ids in one notification: 23 bytes each, of 8,000.
const finishedMax = 300

// finishedPayloads packs ids of finished executions into as few notifications as possible.
func finishedPayloads(ids []messages.ExecutionID) []string {
	var payloads []string
	for part := range slices.Chunk(ids, finishedMax) {
		var b strings.Builder
		b.WriteString(payloadFinished)
		for _, id := range part {
			b.WriteString(base64.RawURLEncoding.EncodeToString(id[:]))
			b.WriteByte(' ')
		}
		payloads = append(payloads, b.String())
	}
	return payloads
}

// channel is the channel that the nodes of this schema listen on.
func (s *core) channel() string { return "troupe." + s.cfg.Schema }

// sessionKey names a session.
type sessionKey struct{ pool, session string }

// knownSessions remembers the sessions of executions in progress, so that their next change is grouped with those of
// sessions at once. A forgotten one only costs round trips.
type knownSessions struct {
	mu    sync.Mutex
	names map[messages.ExecutionID]sessionKey
}

const sessionedMax = 100_000

func newKnownSessions() *knownSessions {
	return &knownSessions{names: map[messages.ExecutionID]sessionKey{}}
}

func (k *knownSessions) add(id messages.ExecutionID, name sessionKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.names) >= sessionedMax {
		clear(k.names)
	}
	k.names[id] = name
}

// of returns the session of an execution, if it is known.
func (k *knownSessions) of(id messages.ExecutionID) sessionKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.names[id]
}

func (k *knownSessions) drop(id messages.ExecutionID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.names, id)
}
