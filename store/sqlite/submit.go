package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Submit stores the executions as requested, all or none. An execution without an id gets one. If the id is stored with
// the same request, Submit returns the stored execution, so a call may be repeated.
func (s *Store) Submit(ctx context.Context, executions []messages.Execution) ([]store.Submitted, error) {
	return s.SubmitPlaced(ctx, executions, nil)
}

// SubmitPlaced is Submit with placements in the same transaction.
func (s *Store) SubmitPlaced(ctx context.Context, executions []messages.Execution, places []*store.Place) ([]store.Submitted, error) {
	if len(executions) > messages.BatchMax {
		return nil, fmt.Errorf("submit: %w: at most %d executions in one call, got %d", store.ErrInvalid, messages.BatchMax, len(executions))
	}
	for i := range executions {
		if err := store.Check(&executions[i]); err != nil {
			return nil, fmt.Errorf("submit execution %d of %d: %w", i+1, len(executions), err)
		}
	}
	if len(executions) == 0 {
		return nil, nil
	}
	if err := store.CheckPlaced(executions, places); err != nil {
		return nil, err
	}
	var out []store.Submitted
	bytes := 0
	for i := range executions {
		bytes += store.ExecutionSize(&executions[i])
	}
	err := s.write(ctx, "submit", len(executions)+bytes/rowBytes, func(w *writer) error {
		out = make([]store.Submitted, 0, len(executions))
		if err := w.submit(executions, &out); err != nil {
			return err
		}
		return w.placeNew(places, out)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// submit inserts the batch. It checks every reason to refuse before the first insert, so that a refusal changes
// nothing. It looks for taken ids only after an insert has failed on one.
func (w *writer) submit(executions []messages.Execution, out *[]store.Submitted) error {
	existing, err := w.existing(executions)
	if err != nil {
		return err
	}
	for i := range executions {
		if old := existing[i]; old != nil {
			*out = append(*out, store.Submitted{Execution: old.Execution, Existing: true})
			continue
		}
		if j, ok := twin(executions, i); ok {
			*out = append(*out, store.Submitted{Execution: (*out)[j].Execution, Existing: true})
			continue
		}
		r := &record{Row: store.Row{Execution: executions[i]}}
		w.fresh(r)
		if err := w.insert(r); err != nil {
			return err
		}
		*out = append(*out, store.Submitted{Execution: r.Execution})
	}
	return nil
}

// placeNew places, or claims, some of the executions that were just submitted.
func (w *writer) placeNew(places []*store.Place, out []store.Submitted) error {
	if len(places) == 0 {
		return nil
	}
	byID := make(map[messages.ExecutionID]*store.Submitted, len(out))
	for i := range out {
		if !out[i].Existing {
			byID[out[i].Execution.ID] = &out[i]
		}
	}
	for _, p := range places {
		s := byID[p.ID]
		if s == nil {
			continue
		}
		var result store.Result
		if err := w.apply(p.AsStored(), &result); err != nil {
			return err
		}
		if result.Verdict == store.Applied {
			stands := w.decided.Next.Execution
			stands.Parameters = s.Execution.Parameters
			s.Execution = stands
		}
	}
	return nil
}

// fresh sets the values that the store decides of a new execution.
func (w *writer) fresh(r *record) {
	e := &r.Execution
	if e.ID.IsZero() {
		e.ID = messages.NewExecutionID()
	}
	w.seq++
	e.Seq, e.Status, e.Attempt, e.RequestedAt = w.seq, messages.Requested, 0, w.now
	if e.RunAt.IsZero() {
		e.RunAt = w.now
	}
	for _, t := range []*time.Time{&e.RunAt, &e.QueueDeadline, &e.WorkerDeadline} {
		if !t.IsZero() {
			*t = t.UTC().Truncate(time.Microsecond)
		}
	}
	e.Timeout, e.StallTimeout = e.Timeout.Truncate(time.Microsecond), e.StallTimeout.Truncate(time.Microsecond)
	e.Worker, e.WorkerID, e.Generation, e.PlacedBy = messages.WorkerKey{}, "", 0, messages.Incarnation{}
	e.FirstPlacedAt, e.ScheduledAt, e.ClaimBy, e.StartedAt, e.RunDeadline, e.FinishedAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	e.SessionEpoch, e.SessionLost, e.SessionHit = 0, false, false
	e.TakeBacks, e.CrashCount, e.RetriedAs, e.Result, e.Error, e.Hooked = 0, 0, messages.ExecutionID{}, nil, nil, e.Webhook != nil
	r.params = len(e.Parameters)
}

const insertRequest = `INSERT INTO request (seq, id, action, version, affinity, labels, created_by, trace, idempotency_key,
 request_hash, timeout, stall_timeout, flags, max_retries, retry_count, retry_reason, original, avoid, requested_at, parameters, key_owner)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

var insertExecution = store.Statement(`INSERT INTO execution (seq, rank, status, attempt, last_change, priority, pool, session, run_at,
 queue_deadline, worker_deadline, room) VALUES (?, ?, {requested}, 0, {submit}, ?, ?, ?, ?, ?, ?, zeroblob(120))`)

// insert writes a new execution's rows.
func (w *writer) insert(r *record) error {
	e := &r.Execution
	var labels any
	if len(e.Labels) > 0 {
		b, err := json.Marshal(e.Labels)
		if err != nil {
			return ofCall(fmt.Errorf("labels of execution %s: %w", e.ID, err))
		}
		labels = b
	}
	rank, err := w.rank(&r.Row)
	if err != nil {
		return err
	}
	r.rank = rank
	err = w.exec(insertRequest, e.Seq, e.ID[:], e.Action, text(e.Version), text(e.Affinity), labels, text(e.CreatedBy),
		text(e.Trace), text(e.IdempotencyKey), blob(e.RequestHash), spanMicros(e.Timeout), spanMicros(e.StallTimeout),
		flags(e.WaitForWorker, e.Idempotent, e.MayRepeat, e.Notify, e.Hooked), int64(e.MaxRetries), int64(e.RetryCount), text(e.RetryReason),
		id16(e.Original), text(r.avoid), micros(e.RequestedAt), blob(e.Parameters), text(e.KeyOwner))
	if err != nil {
		return err
	}
	err = w.exec(insertExecution, e.Seq, r.rank, int64(e.Priority), e.Pool, text(e.Session),
		micros(e.RunAt), micros(e.QueueDeadline), micros(e.WorkerDeadline))
	if err != nil {
		return err
	}
	for k, v := range e.Labels {
		if err := w.exec("INSERT INTO execution_label (key, value, seq) VALUES (?, ?, ?)", k, v, e.Seq); err != nil {
			return err
		}
	}
	if err := w.hook(e); err != nil {
		return err
	}
	if err := w.mark(marks{}, r); err != nil {
		return err
	}
	w.remember(r)
	return nil
}

// existing finds the stored executions that match some of the batch: by idempotency key, and in a careful transaction
// also by id. If a key or id was used for another request, it returns an error of this call.
func (w *writer) existing(executions []messages.Execution) (map[int]*record, error) {
	var found map[int]*record
	for i := range executions {
		e := &executions[i]
		old, err := w.holder(e)
		if err != nil {
			return nil, err
		}
		if old == nil {
			if err := conflictsWithin(executions, i); err != nil {
				return nil, ofCall(err)
			}
			continue
		}
		if !sameRequest(e, &old.Execution) {
			return nil, ofCall(conflict(e, old.ID))
		}
		if found == nil {
			found = map[int]*record{}
		}
		found[i] = old
	}
	return found, nil
}

// holder returns the stored execution with e's idempotency key, or with its id.
func (w *writer) holder(e *messages.Execution) (*record, error) {
	if e.IdempotencyKey != "" {
		r, err := w.keyed(e)
		if r != nil || err != nil {
			return r, err
		}
	}
	if !w.careful || e.ID.IsZero() {
		return nil, nil
	}
	return readOne(w.c, whole+" WHERE r.id = ?", e.ID[:])
}

// keyed returns the stored execution with e's idempotency key, of the same owner.
func (w *writer) keyed(e *messages.Execution) (*record, error) {
	return readOne(w.c, whole+" WHERE r.idempotency_key = ? AND "+keyOwner+" = ?", e.IdempotencyKey, store.KeyOwner(e))
}

// keyOwner is store.KeyOwner of a request r, as in the index of keys.
const keyOwner = "coalesce(r.key_owner, substr(r.created_by, 1, instr(r.created_by || ':', ':') - 1), '')"

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

// twin finds an earlier execution of the same batch under the same idempotency key.
func twin(executions []messages.Execution, i int) (int, bool) {
	key := executions[i].IdempotencyKey
	if key == "" {
		return 0, false
	}
	for j := range i {
		if executions[j].IdempotencyKey == key && store.KeyOwner(&executions[j]) == store.KeyOwner(&executions[i]) {
			return j, true
		}
	}
	return 0, false
}

// conflictsWithin finds an earlier execution of the batch that uses the key for another request.
func conflictsWithin(executions []messages.Execution, i int) error {
	j, ok := twin(executions, i)
	if !ok || sameRequest(&executions[i], &executions[j]) {
		return nil
	}
	return &store.ConflictError{Key: executions[i].IdempotencyKey, Holder: executions[j].ID}
}
