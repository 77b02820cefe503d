package sqlite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// The stages of an execution, and the lanes of those that wait.
const (
	stageWaiting = iota
	stageActive
	stageEnded
)

const (
	laneDue = iota
	laneTurn
	laneTimer
)

const (
	flagWait = 1 << iota
	flagIdempotent
	flagMayRepeat
	flagNotify
	flagHooked
)

const (
	flagLost = 1 << iota
	flagHit
)

// record is an execution with the store's own data about it.
type record struct {
	store.Row
	rank   int64             // while it waits, see rankOf
	avoid  messages.WorkerID // for the router
	params int               // length of the parameters; Parameters may be missing if they are long
}

// rankOf orders waiting executions: by pool, lane and priority, highest first.
func rankOf(pool, lane int64, p messages.Priority) int64 {
	return pool*rankPool + lane*rankLane + int64(messages.PriorityMax-p)
}

const (
	rankLane = 16           // ranks of one lane
	rankPool = 4 * rankLane // ranks of one pool
)

// lane returns the lane of a waiting row.
func (r *record) lane() int64 { return r.rank % rankPool / rankLane }

// waitIn returns the lane that a waiting row belongs to.
func waitIn(r *store.Row, now time.Time) int64 {
	switch {
	case r.RunAt.After(now):
		return laneTimer
	case r.Strict():
		return laneTurn
	}
	return laneDue
}

func stage(s messages.Status) int64 {
	switch {
	case s.Terminal():
		return stageEnded
	case s >= messages.Scheduled:
		return stageActive
	}
	return stageWaiting
}

// recordColumns are the columns that scanRecord reads, in order.
const requestColumns = `e.seq, r.id, r.action, r.version, r.affinity, r.labels, r.created_by, r.trace,
 r.idempotency_key, r.request_hash, r.timeout, r.stall_timeout, r.flags, r.max_retries, r.retry_count, r.retry_reason,
 r.original, r.avoid, r.requested_at, length(r.parameters), `

const recordColumns = requestColumns + `e.rank, e.status, e.attempt, e.last_change, e.priority, e.pool, e.session, e.worker_inc, e.worker_slot, e.worker_id,
 e.generation, e.placed_by, e.take_backs, e.crash_count, e.run_at, e.first_placed_at, e.scheduled_at, e.claim_by,
 e.started_at, e.run_deadline, e.finished_at, e.queue_deadline, e.worker_deadline, e.session_epoch, e.session_flags,
 e.retried_as`

const recordFrom = ` FROM execution e JOIN request r ON r.seq = e.seq `

// recordWidth is how many columns recordColumns has.
const recordWidth = 46

// scanRecord reads one row of recordColumns. Labels that cannot be read make an error, not a panic.
func scanRecord(row row, r *record) error {
	if row.columns < recordWidth {
		return fmt.Errorf("execution row has %d columns, want %d", row.columns, recordWidth)
	}
	s := scanner{row: row}
	if err := scanRequest(&s, r); err != nil {
		return err
	}
	scanState(&s, r)
	return s.err
}

// scanFresh reads one row of fresh: an execution that no change has touched.
func scanFresh(row row, r *record) error {
	s := scanner{row: row}
	if err := scanRequest(&s, r); err != nil {
		return err
	}
	r.Status, r.rank = messages.Requested, s.integer()
	r.Priority, r.Pool, r.Session = messages.Priority(s.integer()), s.interned(), s.text()
	r.RunAt, r.QueueDeadline, r.WorkerDeadline = s.time(), s.time(), s.time()
	r.Parameters = s.bytes()
	return s.err
}

func scanRequest(s *scanner, r *record) error {
	r.Seq = s.integer()
	s.id((*[16]byte)(&r.ID))
	r.Action, r.Version = s.interned(), s.interned()
	r.Affinity = messages.Affinity(s.interned())
	labels := s.bytes()
	r.CreatedBy, r.Trace, r.IdempotencyKey = s.interned(), s.text(), s.text()
	r.RequestHash = s.bytes()
	r.Timeout, r.StallTimeout = s.duration(), s.duration()
	flags := s.integer()
	r.WaitForWorker, r.Idempotent, r.MayRepeat = flags&flagWait != 0, flags&flagIdempotent != 0, flags&flagMayRepeat != 0
	r.Notify, r.Hooked = flags&flagNotify != 0, flags&flagHooked != 0
	r.MaxRetries, r.RetryCount, r.RetryReason = int(s.integer()), int(s.integer()), s.interned()
	s.id((*[16]byte)(&r.Original))
	r.avoid = messages.WorkerID(s.interned())
	r.RequestedAt, r.params = s.time(), int(s.integer())
	if len(labels) > 0 {
		if err := json.Unmarshal(labels, &r.Labels); err != nil {
			return fmt.Errorf("labels of execution %s: %w", r.ID, err)
		}
	}
	return s.err
}

// scanState reads the columns of the execution table.
func scanState(s *scanner, r *record) {
	r.rank = s.integer()
	r.Status, r.Attempt, r.Last = messages.Status(s.integer()), messages.Attempt(s.integer()), store.Last(s.integer())
	r.Priority, r.Pool, r.Session = messages.Priority(s.integer()), s.interned(), s.text()
	s.id((*[16]byte)(&r.Worker.Incarnation))
	r.Worker.Slot, r.WorkerID = messages.Slot(s.integer()), messages.WorkerID(s.interned())
	if !r.Worker.Incarnation.IsZero() {
		r.Worker.Pool = r.Pool
	}
	r.Generation = messages.Generation(s.integer())
	s.id((*[16]byte)(&r.PlacedBy))
	r.TakeBacks, r.CrashCount = int(s.integer()), int(s.integer())
	r.RunAt, r.FirstPlacedAt, r.ScheduledAt, r.ClaimBy = s.time(), s.time(), s.time(), s.time()
	r.StartedAt, r.RunDeadline, r.FinishedAt = s.time(), s.time(), s.time()
	r.QueueDeadline, r.WorkerDeadline = s.time(), s.time()
	r.SessionEpoch = s.integer()
	flags := s.integer()
	r.SessionLost, r.SessionHit = flags&flagLost != 0, flags&flagHit != 0
	s.id((*[16]byte)(&r.RetriedAs))
}

// scanner reads the columns of one row in order. SQLite converts a column of another type than expected. An id of wrong
// length is kept as the row's error.
type scanner struct {
	row row
	n   int
	err error
}

// next returns the column to read. After the last one it returns a column that reads as empty.
func (s *scanner) next() int {
	if s.n >= s.row.columns {
		s.err = fmt.Errorf("row has only %d columns", s.row.columns)
	}
	s.n++
	return s.n - 1
}

func (s *scanner) integer() int64          { return s.row.integer(s.next()) }
func (s *scanner) boolean() bool           { return s.integer() != 0 }
func (s *scanner) time() time.Time         { return moment(s.integer()) }
func (s *scanner) duration() time.Duration { return time.Duration(s.integer()) * time.Microsecond }

func (s *scanner) text() string  { return string(s.row.raw(s.next())) }
func (s *scanner) bytes() []byte { return bytes.Clone(s.row.raw(s.next())) }

// interned reads a text with few different values.
func (s *scanner) interned() string { return s.row.interned(s.next()) }

func (s *scanner) id(into *[16]byte) {
	b := s.row.raw(s.next())
	switch len(b) {
	case 0:
		*into = [16]byte{}
	case 16:
		copy(into[:], b)
	default:
		s.err = fmt.Errorf("column %d: an id has 16 bytes, got %d", s.n, len(b))
	}
}

func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func spanMicros(d time.Duration) int64 { return int64(d / time.Microsecond) }

func flags(values ...bool) int64 {
	var n int64
	for i, v := range values {
		if v {
			n |= 1 << i
		}
	}
	return n
}

// text and blob store an empty value as NULL, which costs no bytes and no call.
func text[T ~string](s T) any {
	if s == "" {
		return nil
	}
	return string(s)
}

func blob[T ~[]byte](b T) any {
	if len(b) == 0 {
		return nil
	}
	return []byte(b)
}

func orNull(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

func id16[T ~[16]byte](id T) any {
	if id == (T{}) {
		return nil
	}
	b := [16]byte(id)
	return b[:]
}
