package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// promoteMax bounds how many executions with a reached run_at one Due moves to the due lanes.
const promoteMax = 2000

const candidateColumns = `SELECT e.seq, e.id, e.attempt, r.action, r.version, e.priority, e.session, r.affinity, r.avoid, r.wait_for_worker,
 r.idempotent, r.worker_deadline, e.take_backs, r.timeout FROM `

const (
	plainRows = `execution e JOIN request r ON r.seq = e.seq
 WHERE e.pool = $1 AND e.rank <= 9 AND (e.rank, e.seq) > ($2::smallint, $3::bigint) ORDER BY e.rank, e.seq LIMIT $4`
	plainSQL = candidateColumns + plainRows
	// wideSQL also reads the columns that claims need.
	wideSQL  = "SELECT " + recordColumns + ", octet_length(r.parameters), CASE WHEN octet_length(r.parameters) <= $5 THEN r.parameters END, e.ctid FROM " + plainRows
	headsOf  = "SELECT head, head_priority, head_seq FROM lane WHERE pool = $1 AND head IS NOT NULL "
	headsSQL = candidateColumns + "(" + headsOf + "ORDER BY head_priority DESC, head_seq LIMIT $2" + headsRows
	// headsRows reads the heads' executions, except those that were placed after the lane was read.
	headsRows = `) l JOIN execution e ON e.id = l.head JOIN request r ON r.seq = e.seq
 WHERE e.turn IS NOT NULL ORDER BY l.head_priority DESC, l.head_seq`
	// behindSQL reads the strict_fail executions behind another one of their session, which is busy or waits.
	behindSQL = candidateColumns + `execution e JOIN request r ON r.seq = e.seq JOIN lane l ON l.pool = e.pool AND l.session = e.session
 WHERE e.pool = $1 AND e.turn = 2 AND e.seq > $3::bigint AND l.head IS DISTINCT FROM e.id ORDER BY e.seq LIMIT $2`
	timerSQL = `SELECT timer_at FROM execution WHERE pool = $1 AND timer_at > $2::timestamptz ORDER BY timer_at LIMIT 1`
	ripeSQL  = `SELECT id FROM execution WHERE pool = $1 AND timer_at > $3::timestamptz AND timer_at <= now() ORDER BY timer_at LIMIT $2`
	lastSQL  = `SELECT last_value, now() FROM execution_seq`
	// firstsSQL reads the first waiting execution of each rank in the sessions' lines, and the first strict_fail as rank
	// 10.
	firstsSQL = `SELECT r.n, e.seq FROM generate_series(0, 9) AS r (n)
 CROSS JOIN LATERAL (SELECT seq FROM execution WHERE pool = $1 AND rank = 16 + r.n ORDER BY seq LIMIT 1) e
 UNION ALL (SELECT 10, seq FROM execution WHERE pool = $1 AND turn = 2 ORDER BY seq LIMIT 1)`
	promoteSQL = `UPDATE execution e SET timer_at = NULL,
 rank = CASE WHEN e.session IS NOT NULL AND r.affinity LIKE 'strict%' THEN 16 ELSE 0 END + 9 - e.priority,
 turn = CASE WHEN e.session IS NULL THEN NULL WHEN r.affinity = 'strict' THEN 1 WHEN r.affinity = 'strict_fail' THEN 2 END
 FROM request r WHERE e.id = ANY($1) AND e.timer_at <= now() AND r.seq = e.seq`
)

// The same queries, each rank from its floor: $3 to $12.
var plainFloorSQL, wideFloorSQL = fromFloors(candidateColumns, "$2"),
	fromFloors("SELECT "+recordColumns+", octet_length(r.parameters), CASE WHEN octet_length(r.parameters) <= $13 THEN r.parameters END, e.ctid FROM ", "$2")

var headsFloorSQL = headsFromFloors("$2")

func headsFromFloors(limit string) string {
	parts := make([]string, floorRanks)
	for rank := range parts {
		parts[rank] = fmt.Sprintf("(%sAND head_priority = %d AND head_seq > $%d::bigint ORDER BY head_seq LIMIT %s)", headsOf, int(messages.PriorityMax)-rank, rank+3, limit)
	}
	return candidateColumns + "(" + strings.Join(parts, " UNION ALL ") + " LIMIT " + limit + headsRows
}

func fromFloors(columns, limit string) string {
	parts := make([]string, floorRanks)
	for rank := range parts {
		parts[rank] = fmt.Sprintf("(%sexecution e JOIN request r ON r.seq = e.seq WHERE e.pool = $1 AND e.rank = %d AND e.seq > $%d::bigint ORDER BY e.seq LIMIT %s)",
			columns, rank, rank+3, limit)
	}
	return strings.Join(parts, " UNION ALL ") + " LIMIT " + limit
}

// Due returns the executions that a router may place now. It first moves executions whose run_at was reached since the
// last look to the due lanes, so that a backlog of executions with run_at ahead is never scanned.
func (s *dueRows) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	page, ripe, err := s.look(ctx, q)
	if err != nil || len(ripe) == 0 {
		return page, err
	}
	if err := s.promote(ctx, ripe); err != nil {
		return store.DuePage{}, s.mapError("promote executions", err)
	}
	s.floors.clear(s.floors.now()) // they now wait in their old places
	page, _, err = s.look(ctx, q)
	return page, err
}

// look reads the due executions, and the ids of those that became due and were not moved yet.
func (s *dueRows) look(ctx context.Context, q store.DueQuery) (page store.DuePage, ripe []messages.ExecutionID, err error) {
	pool, began := encodeText(q.Pool), s.floors.now()
	from, narrow := s.floors.of(q.Pool, began)
	var saw lookResult
	var heads, behind []messages.Candidate
	batch := &pgx.Batch{}
	batch.Queue(ripeSQL, pool, promoteMax, from.timer).Query(func(rows pgx.Rows) error {
		return each(rows, func(s *scanner) {
			var id messages.ExecutionID
			s.id((*[16]byte)(&id))
			ripe = append(ripe, id)
		})
	})
	if q.Limit > 0 {
		s.queuePlain(batch, q, pool, from.plain, narrow && q.AfterSeq <= 0, &saw.plain)
	}
	if q.Heads > 0 {
		queueHeads(batch, q, pool, from, narrow, &heads, &behind)
	}
	whole := q.Limit > 0 && q.AfterSeq <= 0 && !narrow
	if whole && s.floors.isSlow(q.Pool) {
		queueFirsts(batch, pool, &saw)
	}
	batch.Queue(timerSQL, pool, from.timer).Query(func(rows pgx.Rows) error {
		return each(rows, func(s *scanner) { saw.timer = s.time() })
	})
	if err := s.send(ctx, "read due executions", batch); err != nil {
		return store.DuePage{}, nil, err
	}
	plain := saw.plain
	if whole {
		saw.more = len(plain) > q.Limit
		s.floors.looked(q.Pool, began, s.floors.now(), &saw)
	}
	page.NextAt = saw.timer
	page.More = len(plain) > max(q.Limit, 0) || len(heads) > max(q.Heads, 0) || len(behind) > max(q.Heads, 0)
	page.Candidates = slices.Concat(plain[:min(len(plain), max(q.Limit, 0))], heads[:min(len(heads), max(q.Heads, 0))])
	page.Candidates = append(page.Candidates, behind[:min(len(behind), max(q.Heads, 0))]...)
	slices.SortFunc(page.Candidates, byRank)
	return page, ripe, nil
}

// queueHeads adds the statements that read the heads of sessions and the strict_fail executions behind another one of
// their session.
func queueHeads(batch *pgx.Batch, q store.DueQuery, pool string, from bases, narrow bool, heads, behind *[]messages.Candidate) {
	sql, args := headsSQL, []any{pool, q.Heads + 1}
	if narrow {
		sql, args = headsFloorSQL, withFloors(args, from.heads)
	}
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		*heads, err = scanCandidates(rows, q.Heads+1)
		return err
	})
	batch.Queue(behindSQL, pool, q.Heads+1, from.fails).Query(func(rows pgx.Rows) (err error) {
		*behind, err = scanCandidates(rows, q.Heads+1)
		for i := range *behind {
			(*behind)[i].Behind = true
		}
		return err
	})
}

// queueFirsts adds the statements that read the data of floors that the candidates do not contain.
func queueFirsts(batch *pgx.Batch, pool string, saw *lookResult) {
	batch.Queue(lastSQL).Query(func(rows pgx.Rows) error {
		return each(rows, func(s *scanner) { saw.last.seq, saw.last.clock = s.integer(), s.time() })
	})
	batch.Queue(firstsSQL, pool).Query(func(rows pgx.Rows) error {
		return each(rows, func(s *scanner) {
			if rank, seq := s.integer(), s.integer(); rank < int64(floorRanks) {
				saw.turns[rank] = seq
			} else {
				saw.fails = seq
			}
		})
	})
}

func withFloors(args []any, from [floorRanks]int64) []any {
	for _, seq := range from {
		args = append(args, seq)
	}
	return args
}

// send runs the statements of a batch in one round trip and one transaction.
func (s *core) send(ctx context.Context, what string, batch *pgx.Batch) error {
	if s.closed() {
		return s.mapError(what, store.ErrClosed)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	return s.mapError(what, s.pool.SendBatch(ctx, batch).Close())
}

// queuePlain adds the statement that reads the executions outside sessions' lines. With narrow it starts at the floors.
// If this process is the only node, it also reads the columns that the claims need.
func (s *dueRows) queuePlain(batch *pgx.Batch, q store.DueQuery, pool string, from [floorRanks]int64, narrow bool, plain *[]messages.Candidate) {
	rank, seq := int16(-1), int64(0)
	if q.AfterSeq > 0 {
		rank, seq = int16(messages.PriorityMax-q.AfterPriority), q.AfterSeq
	}
	args := withFloors([]any{pool, q.Limit + 1}, from)
	switch alone := s.beats.alone(); { // this process will claim the executions that it reads
	case alone && narrow:
		batch.Queue(wideFloorSQL, append(args, shortParameters)...).Query(func(rows pgx.Rows) (err error) {
			*plain, err = s.scanWide(rows)
			return err
		})
	case narrow:
		batch.Queue(plainFloorSQL, args...).Query(func(rows pgx.Rows) (err error) {
			*plain, err = scanCandidates(rows, q.Limit+1)
			return err
		})
	case alone:
		batch.Queue(wideSQL, pool, rank, seq, q.Limit+1, shortParameters).Query(func(rows pgx.Rows) (err error) {
			*plain, err = s.scanWide(rows)
			return err
		})
	default:
		batch.Queue(plainSQL, pool, rank, seq, q.Limit+1).Query(func(rows pgx.Rows) (err error) {
			*plain, err = scanCandidates(rows, q.Limit+1)
			return err
		})
	}
}

// byRank orders candidates by priority, highest first, then by insertion.
func byRank(a, b messages.Candidate) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Seq, b.Seq))
}

func scanCandidates(rows pgx.Rows, hint int) ([]messages.Candidate, error) {
	out := make([]messages.Candidate, 0, min(hint, 64))
	err := each(rows, func(s *scanner) {
		var k messages.Candidate
		k.Seq = s.integer()
		s.id((*[16]byte)(&k.ID))
		k.Attempt, k.Action, k.Version = messages.Attempt(s.integer()), s.text(), s.text()
		k.Priority, k.Session, k.Affinity = messages.Priority(s.integer()), s.text(), messages.Affinity(s.text())
		k.Avoid, k.WaitForWorker, k.Idempotent = messages.WorkerID(s.text()), s.boolean(), s.boolean()
		k.WorkerDeadline, k.TakeBacks, k.Timeout = s.time(), int(s.integer()), s.duration()
		out = append(out, k)
	})
	return out, err
}

// scanWide reads candidates like scanCandidates and remembers them for their claims.
func (s *dueRows) scanWide(rows pgx.Rows) (out []messages.Candidate, err error) {
	err = each(rows, func(sc *scanner) {
		var r record
		scanRecord(sc, &r)
		short := sc.integer() <= shortParameters
		r.Parameters = sc.bytes()
		at := sc.tid()
		if short {
			s.rememberWaiting(r.Execution, at)
		}
		out = append(out, messages.Candidate{Seq: r.Seq, ID: r.ID, Attempt: r.Attempt, Action: r.Action, Version: r.Version, Priority: r.Priority,
			Session: r.Session, Affinity: r.Affinity, Avoid: r.avoid, WaitForWorker: r.WaitForWorker, Idempotent: r.Idempotent,
			WorkerDeadline: r.WorkerDeadline, TakeBacks: r.TakeBacks, Timeout: r.Timeout})
	})
	return out, err
}

// promote moves executions whose run_at was reached.
func (s *dueRows) promote(ctx context.Context, ripe []messages.ExecutionID) error {
	slices.SortFunc(ripe, func(a, b messages.ExecutionID) int { return slices.Compare(a[:], b[:]) })
	ctx, cancel := bounded(ctx)
	defer cancel()
	return repeat(ctx, func() error {
		batch := &pgx.Batch{}
		batch.Queue(lockByID, idsOf(ripe))
		batch.Queue(promoteSQL, idsOf(ripe))
		batch.Queue(recountLanes, idsOf(ripe))
		return s.pool.SendBatch(ctx, batch).Close()
	})
}
