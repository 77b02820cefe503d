package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const takeSubmissionsSQL = `WITH n AS (UPDATE submission SET held_until = now() + $1::interval
 WHERE id IN (SELECT id FROM submission WHERE state = 'waiting' AND held_until <= now() ORDER BY at, id LIMIT $2 FOR UPDATE SKIP LOCKED)
 RETURNING *)
 SELECT id, action, parameters, session, affinity, priority, run_at, idempotency_key, timeout, max_retries, labels, created_by, trace, at
 FROM n ORDER BY at, id`

// TakeSubmissions returns submissions that other programs inserted into the table submission and that are not settled,
// oldest first, and hides them from other callers for hold. A label whose value is not a text is returned as its JSON.
func (s *inbox) TakeSubmissions(ctx context.Context, hold time.Duration, limit int) ([]store.Submission, error) {
	var out []store.Submission
	err := s.query(ctx, "take submissions", func(v *scanner) {
		out = append(out, scanSubmission(v))
	}, takeSubmissionsSQL, intervalOf(hold), pageSize(limit))
	return out, err
}

func scanSubmission(v *scanner) store.Submission {
	var k store.Submission
	v.id((*[16]byte)(&k.ID))
	k.Action, k.Parameters, k.Session, k.Affinity = v.text(), v.bytes(), v.text(), messages.Affinity(v.text())
	if b := v.raw(); b != nil {
		p := messages.Priority((&scanner{row: [][]byte{b}}).integer())
		k.Priority = &p
	}
	runAt := v.raw()
	k.IdempotencyKey = v.text()
	timeout := v.raw()
	if b := v.raw(); b != nil {
		n := int((&scanner{row: [][]byte{b}}).integer())
		k.MaxRetries = &n
	}
	k.Labels = looseLabels(v.raw())
	k.CreatedBy, k.Trace, k.At = v.text(), v.text(), v.time()
	readForeign(&k, v, runAt, timeout)
	return k
}

// looseLabels reads labels that another program wrote. A value that is not a text becomes its JSON. A column that is
// not an object has no labels.
func looseLabels(b []byte) map[string]string {
	var kept map[string]json.RawMessage
	if len(b) == 0 || json.Unmarshal(b, &kept) != nil || len(kept) == 0 {
		return nil
	}
	out := make(map[string]string, len(kept))
	for k, raw := range kept {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		out[k] = text
	}
	return out
}

// SettleSubmissions records the results of submissions. A settled submission does not change.
func (s *inbox) SettleSubmissions(ctx context.Context, settlements []store.Settlement) error {
	for part := range slices.Chunk(settlements, insertMax) {
		ids, refused := make(column[pgtype.UUID], len(part)), make(column[pgtype.Text], len(part))
		for i, k := range part {
			// A program may have inserted the nil id. uuidOf would make it NULL, and NULL settles no row.
			ids[i], refused[i] = pgtype.UUID{Bytes: k.ID, Valid: true}, textOf(k.Refused)
		}
		_, err := s.exec(ctx, "settle submissions", `UPDATE submission k SET state = CASE WHEN i.refused IS NULL THEN 'accepted' ELSE 'refused' END,
 refused = i.refused, settled_at = now() FROM (SELECT * FROM unnest($1::uuid[], $2::text[]) AS i (id, refused) ORDER BY id) i
 WHERE k.id = i.id AND k.state = 'waiting'`, ids, refused)
		if err != nil {
			return fmt.Errorf("%d submissions: %w", len(part), err)
		}
	}
	return nil
}
