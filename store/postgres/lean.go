package postgres

import (
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// claimedCache keeps what a claim of this process has read, without parameters: while its attempt runs, nothing of the
// row changes but towards cancelling, which a lean outcome does not match. What is forgotten costs the join again.
type claimedCache struct {
	mu  sync.Mutex
	all map[messages.ExecutionID]messages.Execution
}

// claimedMax bounds the executions that are kept, about 700 bytes each.
const claimedMax = 20_000

func newClaimedCache() *claimedCache {
	return &claimedCache{all: map[messages.ExecutionID]messages.Execution{}}
}

// put keeps a claimed execution whose outcome moves no other row.
func (k *claimedCache) put(e messages.Execution) {
	if e.Session != "" || e.Notify {
		return
	}
	e.Parameters = nil
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.all) >= claimedMax {
		clear(k.all)
	}
	k.all[e.ID] = e
}

// take returns what was kept of the attempt, and forgets it.
func (k *claimedCache) take(id messages.ExecutionID, attempt int32) (messages.Execution, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.all[id]
	delete(k.all, id)
	return e, ok && int32(e.Attempt) == attempt
}

// leanSQL gives outcomes to running executions without reading what was asked, which the claim has read.
const leanSQL = `UPDATE execution e SET on_worker = NULL, unusual = nullif(i.after, 6), status = i.after, last_change = 4, finished_at = now(),
 result = i.result, error = i.error
 FROM unnest($1::int[], $2::uuid[], $3::int[], $4::smallint[], $5::bytea[], $6::bytea[]) AS i (n, id, attempt, after, result, error)
 WHERE e.id = i.id AND e.status = 4 AND e.attempt = i.attempt AND e.session IS NULL RETURNING i.n, now()`

// lean is an edge whose execution this process has claimed.
type lean struct {
	edge
	claimed messages.Execution
}

// sortLean takes the edges out of ends that need no more than their own row.
func (s *Store) sortLean(c *changes) []lean {
	if c.careful {
		return nil
	}
	var out []lean
	rest := c.ends[:0]
	for _, e := range c.ends {
		short := len(e.result) <= shortOutcome && (e.failure == nil || len(e.failure.Details)+len(e.failure.Stderr) <= shortOutcome)
		plain := short && e.last == lastFinish && e.retry == nil && e.output == nil && e.kind == ""
		if plain {
			if claimed, ok := s.claimed.take(c.items[e.item].id, e.attempt.Int32); ok {
				out = append(out, lean{e, claimed})
				continue
			}
		}
		rest = append(rest, e)
	}
	c.ends = rest
	return out
}

func (s *Store) queueLean(batch *pgx.Batch, c *changes, part []lean) {
	n, attempts, after := make([]int32, len(part)), make([]int32, len(part)), make([]int16, len(part))
	ids, results, failures := make([]pgtype.UUID, len(part)), make([][]byte, len(part)), make([][]byte, len(part))
	finished := make([]messages.ExecutionID, len(part))
	for k := range part {
		e := &part[k]
		finished[k] = c.items[e.item].id
		n[k], ids[k], attempts[k], after[k] = int32(k), uuidOf(finished[k]), e.attempt.Int32, int16(e.after)
		results[k], failures[k] = bytesOf(e.result), store.EncodeError(e.failure)
	}
	batch.Queue(leanSQL, n, ids, attempts, after, results, failures).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			k, at := sc.integer(), sc.time()
			l := &part[k]
			e := l.claimed
			e.Status, e.FinishedAt, e.Result, e.Error = l.after, at, bytesOf(l.result), store.DecodeError(failures[k])
			c.applied(int64(l.item), at, e.Status, e.Attempt).out.Execution = &e
		})
	})
	if s.beats.others() {
		queueNotify(batch, s.channel(), finishedWords(finished))
	}
}
