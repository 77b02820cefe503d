package postgres

import (
	"bytes"
	"maps"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// The lean statements change an execution without reading its request, if this process has read it before: a claim
// after it stored the execution or found it due, an outcome after it claimed it. A request never changes. A forgotten
// one costs the join again.

// remembered keeps executions by id.
type remembered struct {
	mu  sync.Mutex
	all map[messages.ExecutionID]*messages.Execution
}

// rememberedMax bounds the remembered executions, of 700 to 1,500 bytes each.
const rememberedMax = 20_000

func newRemembered() *remembered {
	return &remembered{all: map[messages.ExecutionID]*messages.Execution{}}
}

func (k *remembered) put(e messages.Execution) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.all) >= rememberedMax {
		clear(k.all)
	}
	k.all[e.ID] = &e
}

// take returns the execution and forgets it. The caller owns it from then on.
func (k *remembered) take(id messages.ExecutionID) (*messages.Execution, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.all[id]
	delete(k.all, id)
	return e, ok
}

// shortParameters bounds the bytes of parameters that are kept for the claim.
const shortParameters = 256

// shortLabels bounds the bytes of labels that are kept.
const shortLabels = 512

// rememberWaiting keeps a waiting execution for its claim. It copies what the caller may still change.
func (s *memory) rememberWaiting(e messages.Execution) {
	if e.Session != "" || len(e.Parameters) > shortParameters || sizeOf(e.Labels) > shortLabels {
		return
	}
	e.Parameters, e.RequestHash, e.Labels = bytes.Clone(e.Parameters), bytes.Clone(e.RequestHash), maps.Clone(e.Labels)
	s.waiting.put(e)
}

// rememberStored keeps a new execution for what comes next: its claim or, where it was claimed as it was stored, its outcome.
func (s *memory) rememberStored(e messages.Execution) {
	if e.Status != messages.Running {
		s.rememberWaiting(e)
		return
	}
	e.RequestHash, e.Labels = bytes.Clone(e.RequestHash), maps.Clone(e.Labels)
	s.rememberClaimed(e)
}

func sizeOf(labels map[string]string) (n int) {
	for k, v := range labels {
		n += len(k) + len(v)
	}
	return n
}

// rememberClaimed keeps an execution for its outcome, which changes no other row. While its attempt runs, the row
// changes only to cancelling, which a lean outcome does not match.
func (s *memory) rememberClaimed(e messages.Execution) {
	if e.Session == "" && sizeOf(e.Labels) <= shortLabels {
		e.Parameters = nil
		s.claimed.put(e)
	}
}

// queueLeanClaims adds the claims of remembered executions and returns the others.
func (s *statements) queueLeanClaims(batch *pgx.Batch, c *changes, part []int, form *claimForm) []int {
	var rest, lean []int
	var asked []*messages.Execution
	for _, i := range part {
		if e, ok := s.waiting.take(c.items[i].id); ok {
			lean, asked = append(lean, i), append(asked, e)
		} else {
			rest = append(rest, i)
		}
	}
	if len(lean) == 0 {
		return part
	}
	timeouts, seqs := make(column[pgtype.Interval], len(lean)), make([]int64, len(lean))
	for k, e := range asked {
		timeouts[k], seqs[k] = intervalOf(e.Timeout), e.Seq
	}
	args := form.args(c, lean)
	places := args[0].([]int32)
	for k := range places {
		places[k] = int32(k)
	}
	batch.Queue(form.lean, append(args, timeouts, seqs)...).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			k, at := sc.integer(), sc.time()
			e, claim := asked[k], c.items[lean[k]].change.(*store.Claim)
			e.Status, e.Attempt, e.Worker, e.Generation, e.StartedAt = messages.Running, messages.Attempt(sc.integer()), claim.Worker, claim.Generation, at
			e.WorkerID = messages.WorkerID(sc.text())
			sc.id((*[16]byte)(&e.PlacedBy))
			e.TakeBacks, e.CrashCount, e.RunAt = 0, int(sc.integer()), sc.time()
			e.FirstPlacedAt, e.ScheduledAt, e.ClaimBy, e.RunDeadline = sc.time(), sc.time(), sc.time(), sc.time()
			c.applied(int64(lean[k]), at, e.Status, e.Attempt).out.Execution = e
			s.rememberClaimed(*e)
		})
	})
	s.queueStraight(batch, c, lean, "claim")
	return rest
}

// The lean statements write outcomes of running executions without reading their requests, which the claim has read.
var (
	leanSet = store.Statement(`UPDATE execution e SET on_worker = NULL, unusual = nullif(i.after, {completed}), status = i.after, last_change = {finish}, finished_at = now(),
 result = i.result, error = i.error FROM unnest($1::int[], $2::uuid[], $3::int[], $4::smallint[], $5::bytea[], $6::bytea[]`)
	leanColumns = `n, id, attempt, after, result, error`
	leanWhere   = store.Statement(` WHERE e.id = i.id AND e.status = {running} AND e.attempt = i.attempt AND e.session IS NULL`)
	leanSQL     = leanSet + `) AS i (` + leanColumns + `)` + leanWhere + ` RETURNING i.n, now()`
	// leanToldSQL is leanSQL that also puts the ids of executions with a notice into the outbox, in one row for each route.
	leanToldSQL = `WITH e AS (` + leanSet + `, $7::boolean[], $8::text[]) AS i (` + leanColumns + `, notify, action)` + leanWhere + `
  RETURNING i.n, e.id, i.notify, CASE WHEN i.action IS NOT NULL THEN e.status END AS status, i.action),
 o AS (INSERT INTO outbox (ids, status, action) SELECT array_agg(id), status, action FROM e WHERE notify GROUP BY status, action)
 SELECT n, now() FROM e`
)

// lean is the end of a run that this process claimed.
type lean struct {
	edge
	claimed *messages.Execution
}

// sortLean removes from ends those that change only their own row.
func (s *statements) sortLean(c *changes) []lean {
	var out []lean
	rest := c.ends[:0]
	for _, e := range c.ends {
		o := &e.change.Outcome
		short := len(o.Result) <= shortOutcome && (o.Error == nil || len(o.Error.Details)+len(o.Error.Stderr) <= shortOutcome)
		plain := short && e.change.Retry == nil && e.change.Output.Empty() && e.kind == "" && e.crash == 0
		if plain {
			if claimed, ok := s.claimed.take(c.items[e.item].id); ok && claimed.Attempt == e.change.Attempt {
				out = append(out, lean{e, claimed})
				continue
			}
		}
		rest = append(rest, e)
	}
	c.ends = rest
	return out
}

func (s *statements) queueLean(batch *pgx.Batch, c *changes, part []lean) {
	n, attempts, after := make([]int32, len(part)), make([]int32, len(part)), make([]int16, len(part))
	ids, results, failures := make(column[pgtype.UUID], len(part)), make(blobs, len(part)), make(blobs, len(part))
	notify, actions, told := make([]bool, len(part)), make(column[pgtype.Text], len(part)), false
	for k := range part {
		e := &part[k]
		o := &e.change.Outcome
		n[k], ids[k], attempts[k], after[k] = int32(k), uuidOf(c.items[e.item].id), int32(part[k].claimed.Attempt), int16(o.Status)
		results[k], failures[k] = bytesOf(o.Result), store.EncodeError(o.Error)
		notify[k], told = e.claimed.Notify, told || e.claimed.Notify
		if e.claimed.Trace == "" && e.claimed.Original.IsZero() {
			actions[k] = textOf(e.claimed.Action)
		}
	}
	statement, args := leanSQL, []any{n, ids, attempts, after, results, failures}
	if told {
		statement, args = leanToldSQL, append(args, notify, actions)
	}
	batch.Queue(statement, args...).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			k, at := sc.integer(), sc.time()
			l := &part[k]
			e := l.claimed
			e.Status, e.FinishedAt, e.Result, e.Error = l.change.Outcome.Status, at, bytesOf(l.change.Outcome.Result), store.DecodeError(failures[k])
			c.applied(int64(l.item), at, e.Status, e.Attempt).out.Execution = e
		})
	})
}
