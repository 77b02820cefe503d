package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// hook stores the webhook of a new execution, and takes it out of it.
func (w *writer) hook(e *messages.Execution) error {
	if e.Webhook == nil {
		return nil
	}
	destination, err := store.WebhookDestination(e.Webhook, e.CreatedBy)
	if err != nil {
		return ofCall(err)
	}
	err = w.exec("INSERT INTO webhook (seq, url, destination, secret, outcomes, state) VALUES (?, ?, ?, ?, ?, 1)",
		e.Seq, e.Webhook.URL, destination, text(e.Webhook.Secret), int64(messages.StatusSet(e.Webhook.On)))
	e.Webhook = nil
	return err
}

// hookRetry gives a retry the webhook of the execution that it repeats.
func (w *writer) hookRetry(r, next *record) error {
	if !r.Hooked {
		return nil
	}
	return w.exec("INSERT OR IGNORE INTO webhook (seq, url, destination, secret, outcomes, state) SELECT ?, url, destination, secret, outcomes, 1 FROM webhook WHERE seq = ?",
		next.Seq, r.Seq)
}

// hookDue makes the webhook of an execution due as it ends. One that a retry follows is not told: the retry is.
func (w *writer) hookDue(r *record, next *store.Row) error {
	if !r.Hooked {
		return nil
	}
	return w.exec(`UPDATE webhook SET since = ?1, next_at = ?1, state = CASE WHEN ?2 = 0 AND (outcomes = 0 OR outcomes & (1 << ?3) <> 0) THEN 2 ELSE 5 END
 WHERE seq = ?4 AND state = 1`, micros(w.now), flags(!next.RetriedAs.IsZero()), int64(next.Status), r.Seq)
}

const webhookColumns = `r.id, w.url, w.destination, w.secret, w.outcomes, w.state, w.tries, w.since, w.next_at, w.claim, w.code, w.error, w.ended_at`

const webhookFrom = "SELECT " + webhookColumns + ", w.seq FROM webhook w JOIN request r ON r.seq = w.seq"

// hooked is a row of webhook with its key.
type hooked struct {
	messages.WebhookRecord
	seq int64
}

func readWebhooks(c *conn, sql string, args ...any) (out []hooked, err error) {
	err = c.query(sql, func(row row) error {
		v, r := scanner{row: row}, hooked{}
		v.id((*[16]byte)(&r.Execution))
		r.URL, r.Destination, r.Secret = v.text(), v.text(), v.text()
		r.On, r.State = messages.StatusesOf(int32(v.integer())), messages.WebhookState(v.integer())
		r.Tries, r.Since, r.NextAt, r.Claim = int(v.integer()), v.time(), v.time(), v.integer()
		r.Code, r.Error, r.EndedAt = int(v.integer()), v.text(), v.time()
		r.seq = v.integer()
		out = append(out, r)
		return v.err
	}, args...)
	return out, err
}

// Webhook implements store.Webhooks.
func (s *Store) Webhook(ctx context.Context, id messages.ExecutionID) (r messages.WebhookRecord, err error) {
	var found []hooked
	err = s.read(ctx, "read a webhook", func(c *conn) (err error) {
		found, err = readWebhooks(c, webhookFrom+" WHERE r.id = ?", id[:])
		return err
	})
	if err == nil && len(found) == 0 {
		return r, fmt.Errorf("webhook of execution %s: %w", id, store.ErrNotFound)
	}
	if err != nil {
		return r, err
	}
	return found[0].WebhookRecord, nil
}

// dueDestinationsSQL goes from each destination to the next one in the index, so its cost does not depend on how much is due at one.
const dueDestinationsSQL = `WITH RECURSIVE d (destination, n) AS (
 SELECT (SELECT min(destination) FROM webhook WHERE state = 2 AND destination > ?1), 1
 UNION ALL SELECT (SELECT min(w.destination) FROM webhook w WHERE w.state = 2 AND w.destination > d.destination), d.n + 1 FROM d
  WHERE d.destination IS NOT NULL AND d.n < ?2)
 SELECT d.destination, EXISTS (SELECT 1 FROM webhook w WHERE w.state = 2 AND w.destination = d.destination AND w.next_at <= ?3)
 FROM d WHERE d.destination IS NOT NULL ORDER BY d.destination`

// DueDestinations implements store.Webhooks.
func (s *Store) DueDestinations(ctx context.Context, after string, limit int) (page store.WebhookDestinations, err error) {
	limit = webhookPage(limit)
	err = s.read(ctx, "look for webhooks", func(c *conn) error {
		page = store.WebhookDestinations{}
		seen := 0
		return c.query(dueDestinationsSQL, func(row row) error {
			v := scanner{row: row}
			name := v.text()
			if v.boolean() {
				page.Due = append(page.Due, name)
			}
			if seen++; seen == limit {
				page.Next = name
			}
			return v.err
		}, after, int64(limit), micros(s.clock.now()))
	})
	return page, err
}

// webhookPage bounds a page: 1 to 1000; 100 if limit is 0.
func webhookPage(limit int) int {
	if limit <= 0 {
		return 100
	}
	return min(limit, 1000)
}

// TakeWebhooks implements store.Webhooks. A row has no execution any more only if another program has deleted that: both are deleted
// together.
func (s *Store) TakeWebhooks(ctx context.Context, takes []store.WebhookTake, lease time.Duration) ([]store.WebhookCall, error) {
	n := 0
	for _, t := range takes {
		n += t.Limit
	}
	var out []store.WebhookCall // no result by name: a return would write it, and the writer may still use it when ctx has ended
	err := s.write(ctx, "take webhooks", n, func(w *writer) error {
		out = nil
		for _, t := range takes {
			calls, err := w.takeWebhooks(t, lease)
			if err != nil {
				return err
			}
			out = append(out, calls...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// calledSQL reads an ended execution as a notice shows it: without a result that is longer than one holds.
const calledSQL = "SELECT " + recordColumns + `, NULL, CASE WHEN length(CAST(coalesce(e.result, o.result) AS BLOB)) <= ?2 THEN coalesce(e.result, o.result) END,
 CASE WHEN octet_length(coalesce(e.error, o.error)) <= ?2 THEN coalesce(e.error, o.error) ELSE substr(coalesce(e.error, o.error), 1, ?3) END,
 coalesce(octet_length(coalesce(e.result, o.result)) > ?2, 0)` + recordFrom + `LEFT JOIN outcome o ON o.seq = e.seq WHERE e.seq = ?1`

func (w *writer) takeWebhooks(t store.WebhookTake, lease time.Duration) (out []store.WebhookCall, err error) {
	rows, err := readWebhooks(w.c, webhookFrom+" WHERE w.state = 2 AND w.destination = ? AND w.next_at <= ? ORDER BY w.next_at LIMIT ?",
		t.Destination, micros(w.now), int64(t.Limit))
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		r.Claim, r.NextAt = r.Claim+1, w.now.Add(lease)
		if err := w.exec("UPDATE webhook SET next_at = ?, claim = ? WHERE seq = ?", micros(r.NextAt), r.Claim, r.seq); err != nil {
			return nil, err
		}
		call := store.WebhookCall{WebhookRecord: r.WebhookRecord, Age: max(w.now.Sub(r.Since), 0)}
		err := w.c.query(calledSQL, func(row row) error {
			var of record
			err := scanWorking(row, &of)
			v := scanner{row: row, n: recordWidth + 3}
			call.Of, call.Truncated = of.Execution, v.boolean()
			return errors.Join(err, v.err)
		}, r.seq, int64(messages.NoticeResultMax), int64(store.ErrorListed))
		if err != nil {
			return nil, err
		}
		out = append(out, call)
	}
	return out, nil
}

// ReportWebhooks implements store.Webhooks.
func (s *Store) ReportWebhooks(ctx context.Context, reports []store.WebhookReport) error {
	return s.write(ctx, "report webhooks", len(reports), func(w *writer) error {
		for _, r := range reports {
			next, ended := w.now.Add(r.After), time.Time{}
			if r.State != messages.WebhookDue {
				next, ended = time.Time{}, w.now
			}
			err := w.exec("UPDATE webhook SET state = ?, tries = ?, code = ?, error = ?, next_at = ?, ended_at = ? WHERE seq = (SELECT seq FROM request WHERE id = ?) AND claim = ? AND state = 2",
				int64(r.State), int64(r.Tries), int64(r.Code), text(store.WebhookReason(r.Error)), micros(next), micros(ended), r.Execution[:], r.Claim)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

const expireWebhooksSQL = `UPDATE webhook SET state = 4, next_at = 0, claim = claim + 1, ended_at = ?1, error = CASE WHEN error IS NULL THEN ?2 ELSE error || '; ' || ?2 END
 WHERE seq IN (SELECT seq FROM webhook WHERE state = 2 AND since < ?3 AND next_at <= ?1 ORDER BY since LIMIT ?4)`

// ExpireWebhooks implements store.Webhooks.
func (s *Store) ExpireWebhooks(ctx context.Context, age time.Duration, why string, limit int) (int, error) {
	limit = webhookPage(limit)
	none := false
	err := s.read(ctx, "look for old webhooks", func(c *conn) error { // so that the file is not written for nothing
		found, err := c.number("SELECT count(*) FROM (SELECT 1 FROM webhook WHERE state = 2 AND since < ? LIMIT 1)", micros(s.clock.now().Add(-age)))
		none = found == 0
		return err
	})
	if err != nil || none {
		return 0, err
	}
	var n int64
	err = s.write(ctx, "give webhooks up", limit, func(w *writer) (err error) {
		n, err = w.c.exec(expireWebhooksSQL, micros(w.now), why, micros(w.now.Add(-age)), int64(limit))
		return err
	})
	if err != nil {
		return 0, err // the writer may still use n
	}
	return int(n), nil
}

// RepeatWebhook implements store.Webhooks.
func (s *Store) RepeatWebhook(ctx context.Context, id messages.ExecutionID) (messages.WebhookRecord, error) {
	r, err := s.Webhook(ctx, id)
	if err != nil {
		return r, err
	}
	if err := store.RepeatRefused(&r); err != nil {
		return r, err
	}
	err = s.write(ctx, "repeat a webhook", 1, func(w *writer) error {
		return w.exec(`UPDATE webhook SET state = 2, tries = 0, since = ?1, next_at = ?1, ended_at = 0, claim = claim + 1
 WHERE seq = (SELECT seq FROM request WHERE id = ?2) AND state IN (3, 4)`, micros(w.now), id[:])
	})
	if err != nil {
		return r, err
	}
	return s.Webhook(ctx, id)
}

// ListWebhooks implements store.Webhooks.
func (s *Store) ListWebhooks(ctx context.Context, q store.WebhookQuery) (out []messages.WebhookRecord, err error) {
	if q.State != messages.WebhookDue && q.State != messages.WebhookGivenUp {
		return nil, errors.Join(store.ErrInvalid, errors.New("webhooks are listed that are due or given up"))
	}
	after := q.Begin()
	err = s.read(ctx, "list webhooks", func(c *conn) error {
		out = nil
		rows, err := readWebhooks(c, webhookFrom+` WHERE w.state = ?1 AND w.state IN (2, 4) AND w.since >= ?2 AND w.since < ?4
 AND (w.since > ?2 OR w.seq > coalesce((SELECT seq FROM request WHERE id = ?3), 0)) ORDER BY w.since, w.seq LIMIT ?5`,
			int64(q.State), micros(after.Since), after.Execution[:], endOf(q.To), int64(webhookPage(q.Limit)))
		for _, r := range rows {
			out = append(out, r.WebhookRecord)
		}
		return err
	})
	return out, err
}

// CountWebhooks implements store.Webhooks.
func (s *Store) CountWebhooks(ctx context.Context) (n store.WebhookCounts, err error) {
	now := s.clock.now()
	err = s.read(ctx, "count webhooks", func(c *conn) error {
		n = store.WebhookCounts{}
		return c.query(`SELECT (SELECT count(*) FROM (SELECT 1 FROM webhook WHERE state = 2 LIMIT ?1)),
 coalesce((SELECT since FROM webhook WHERE state = 2 ORDER BY since LIMIT 1), 0), (SELECT count(*) FROM (SELECT 1 FROM webhook WHERE state = 4 LIMIT ?1))`,
			func(row row) error {
				v := scanner{row: row}
				n.Due = int(v.integer())
				if since := v.time(); !since.IsZero() {
					n.Late = max(now.Sub(since), 0)
				}
				n.GivenUp = int(v.integer())
				return v.err
			}, int64(store.WebhookCountMax))
	})
	return n, err
}
