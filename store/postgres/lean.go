package postgres

import (
	"bytes"
	"fmt"
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

// located is an execution and where its row lies in the table. A statement that knows the latter needs no index to find the row. It
// compares the id too, so a row that moved meanwhile is not found, as one that changed.
type located struct {
	*messages.Execution
	at pgtype.TID // not valid: not known
}

// remembered keeps executions by id.
type remembered struct {
	mu  sync.Mutex
	all map[messages.ExecutionID]located
}

// rememberedMax bounds the remembered executions, of 700 to 1,500 bytes each.
const rememberedMax = 20_000

func newRemembered() *remembered {
	return &remembered{all: map[messages.ExecutionID]located{}}
}

func (k *remembered) put(e messages.Execution, at pgtype.TID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.all) >= rememberedMax {
		clear(k.all)
	}
	k.all[e.ID] = located{&e, at}
}

// take returns the execution and forgets it. The caller owns it from then on.
func (k *remembered) take(id messages.ExecutionID) (located, bool) {
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
func (s *memory) rememberWaiting(e messages.Execution, at pgtype.TID) {
	if e.Session != "" || len(e.Parameters) > shortParameters || sizeOf(e.Labels) > shortLabels {
		return
	}
	e.Parameters, e.RequestHash, e.Labels = bytes.Clone(e.Parameters), bytes.Clone(e.RequestHash), maps.Clone(e.Labels)
	s.waiting.put(e, at)
}

// rememberStored keeps a new execution for what comes next: its claim or, where it was claimed as it was stored, its outcome.
func (s *memory) rememberStored(e messages.Execution) {
	if e.Status != messages.Running {
		s.rememberWaiting(e, pgtype.TID{})
		return
	}
	e.RequestHash, e.Labels = bytes.Clone(e.RequestHash), maps.Clone(e.Labels)
	s.rememberClaimed(e, pgtype.TID{})
}

func sizeOf(labels map[string]string) (n int) {
	for k, v := range labels {
		n += len(k) + len(v)
	}
	return n
}

// rememberClaimed keeps an execution for its outcome, which changes no other row. While its attempt runs, the row
// changes only to cancelling, which a lean outcome does not match.
func (s *memory) rememberClaimed(e messages.Execution, at pgtype.TID) {
	if e.Session == "" && sizeOf(e.Labels) <= shortLabels {
		e.Parameters = nil
		s.claimed.put(e, at)
	}
}

// queueLeanClaims adds the claims of remembered executions and returns the others.
func (s *statements) queueLeanClaims(batch *pgx.Batch, c *changes, part []int, form *claimForm) []int {
	var rest, lean []int
	var asked []located
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
	statement := form.lean
	own := []any{timeouts, seqs}
	if at, ok := places(asked); ok && form.handed { // a placement has moved the row since it was read
		statement, own = form.leanAt, append(own, at)
	}
	args := form.args(c, lean)
	numbers := args[0].([]int32)
	for k := range numbers {
		numbers[k] = int32(k)
	}
	batch.Queue(statement, append(args, own...)...).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			k, at := sc.integer(), sc.time()
			e, claim := asked[k].Execution, c.items[lean[k]].change.(*store.Claim)
			e.Status, e.Attempt, e.Worker, e.Generation, e.StartedAt = messages.Running, messages.Attempt(sc.integer()), claim.Worker, claim.Generation, at
			e.WorkerID = messages.WorkerID(sc.text())
			sc.id((*[16]byte)(&e.PlacedBy))
			e.TakeBacks, e.CrashCount, e.RunAt = 0, int(sc.integer()), sc.time()
			e.FirstPlacedAt, e.ScheduledAt, e.ClaimBy, e.RunDeadline = sc.time(), sc.time(), sc.time(), sc.time()
			c.applied(int64(lean[k]), at, e.Status, e.Attempt).out.Execution = e
			s.rememberClaimed(*e, sc.tid())
		})
	})
	s.queueStraight(batch, c, lean, "claim")
	return rest
}

// places are where the rows lie; false: one is not known.
func places(all []located) (column[pgtype.TID], bool) {
	at := make(column[pgtype.TID], len(all))
	for k, e := range all {
		if at[k] = e.at; !e.at.Valid {
			return nil, false
		}
	}
	return at, true
}

// The lean statements write outcomes of running executions without reading their requests, which the claim has read.
var (
	leanSet = store.Statement(`UPDATE execution e SET on_worker = NULL, unusual = nullif(i.after, {completed}), status = i.after, last_change = {finish}, finished_at = now(),
 result = i.result, error = i.error FROM unnest($1::int[], $2::uuid[], $3::int[], $4::smallint[], $5::bytea[], $6::bytea[]`)
	leanColumns = `n, id, attempt, after, result, error`
	leanWhere   = store.Statement(` AND e.status = {running} AND e.attempt = i.attempt AND e.session IS NULL`)
	leanSQLs    = map[leanForm]string{{}: leanSQL(leanForm{}), {told: true}: leanSQL(leanForm{told: true}), {at: true}: leanSQL(leanForm{at: true}),
		{told: true, at: true}: leanSQL(leanForm{told: true, at: true})}
)

// leanForm is a form of the lean statement for outcomes. Told: it also puts the ids of executions with a notice into the outbox, in
// one row for each route. At: the places of all rows are known.
type leanForm struct{ told, at bool }

func leanSQL(f leanForm) string {
	types, columns, where, next := "", leanColumns, sameID, 7
	if f.told {
		types, columns, next = ", $7::boolean[], $8::text[]", columns+", notify, action", 9
	}
	if f.at {
		types, columns, where = types+fmt.Sprintf(", $%d::tid[]", next), columns+", at", samePlace
	}
	update := leanSet + types + `) AS i (` + columns + `)` + where + leanWhere
	if !f.told {
		return update + ` RETURNING i.n, now()`
	}
	return `WITH e AS (` + update + `
  RETURNING i.n, e.id, i.notify, CASE WHEN i.action IS NOT NULL THEN e.status END AS status, i.action),
 o AS (INSERT INTO outbox (ids, status, action) SELECT array_agg(id), status, action FROM e WHERE notify GROUP BY status, action)
 SELECT n, now() FROM e`
}

// The two ways to find the row. IS TRUE keeps the server from using the index of the ids.
const (
	sameID    = ` WHERE e.id = i.id`
	samePlace = ` WHERE e.ctid = i.at AND (e.id = i.id) IS TRUE`
)

// lean is the end of a run that this process claimed.
type lean struct {
	edge
	claimed located
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
	form, args := leanForm{told: told}, []any{n, ids, attempts, after, results, failures}
	if told {
		args = append(args, notify, actions)
	}
	claimed := make([]located, len(part))
	for k := range part {
		claimed[k] = part[k].claimed
	}
	if at, ok := places(claimed); ok {
		form.at, args = true, append(args, at)
	}
	batch.Queue(leanSQLs[form], args...).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			k, at := sc.integer(), sc.time()
			l := &part[k]
			e := l.claimed.Execution
			e.Status, e.FinishedAt, e.Result, e.Error = l.change.Outcome.Status, at, bytesOf(l.change.Outcome.Result), store.DecodeError(failures[k])
			c.applied(int64(l.item), at, e.Status, e.Attempt).out.Execution = e
		})
	})
}
