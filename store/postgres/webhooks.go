package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// hookSQL stores the webhooks of new executions. A separate statement marks their rows, so that an insert without webhooks stays as it is.
const hookSQL = `WITH w AS (INSERT INTO webhook (id, url, destination, secret, outcomes, state)
  SELECT id, url, destination, secret, outcomes, 1 FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::int[]) AS i (id, url, destination, secret, outcomes))
 UPDATE execution SET webhook = true WHERE id = ANY ($1)`

// hookRows are the parameters of hookSQL.
type hookRows struct {
	ids               column[pgtype.UUID]
	urls, destination []string
	secrets           column[pgtype.Text]
	outcomes          []int32
}

// add takes the webhook of an execution out of it, if it has one.
func (h *hookRows) add(e *messages.Execution) error {
	if e.Webhook == nil {
		return nil
	}
	destination, err := store.WebhookDestination(e.Webhook, e.CreatedBy)
	if err != nil {
		return err
	}
	h.ids, h.urls, h.destination = append(h.ids, uuidOf(e.ID)), append(h.urls, encodeText(e.Webhook.URL)), append(h.destination, encodeText(destination))
	h.secrets, h.outcomes = append(h.secrets, textOf(e.Webhook.Secret)), append(h.outcomes, messages.StatusSet(e.Webhook.On))
	e.Webhook, e.Hooked = nil, true
	return nil
}

func (h *hookRows) queue(batch *pgx.Batch, sql func(string) string) {
	if len(h.ids) > 0 {
		batch.Queue(sql(hookSQL), h.ids, h.urls, h.destination, h.secrets, h.outcomes)
	}
}

// webhookRows has who is told of outcomes by HTTP.
type webhookRows struct{ *core }

const webhookColumns = `w.id, w.url, w.destination, w.secret, w.outcomes, w.state, w.tries, w.since, w.next_at, w.claim, w.code, w.error, w.ended_at`

func scanWebhook(v *scanner) (r messages.WebhookRecord) {
	v.id((*[16]byte)(&r.Execution))
	r.URL, r.Destination, r.Secret = v.text(), v.text(), v.text()
	r.On, r.State = messages.StatusesOf(int32(v.integer())), messages.WebhookState(v.integer())
	r.Tries, r.Since, r.NextAt, r.Claim = int(v.integer()), v.time(), v.time(), v.integer()
	r.Code, r.Error, r.EndedAt = int(v.integer()), v.text(), v.time()
	return r
}

// Webhook implements store.Webhooks.
func (s *webhookRows) Webhook(ctx context.Context, id messages.ExecutionID) (r messages.WebhookRecord, err error) {
	found := false
	err = s.query(ctx, "read a webhook", func(v *scanner) { r, found = scanWebhook(v), true },
		"SELECT "+webhookColumns+" FROM webhook w WHERE w.id = $1", uuidOf(id))
	if err == nil && !found {
		err = fmt.Errorf("webhook of execution %s: %w", id, store.ErrNotFound)
	}
	return r, err
}

// dueDestinationsSQL goes from each destination to the next one in the index, so its cost does not depend on how much is due at one.
const dueDestinationsSQL = `WITH RECURSIVE d AS (
 (SELECT w.destination, 1 AS n FROM webhook w WHERE w.state = 2 AND w.destination > $1 ORDER BY w.destination LIMIT 1)
 UNION ALL SELECT (SELECT w.destination FROM webhook w WHERE w.state = 2 AND w.destination > d.destination ORDER BY w.destination LIMIT 1), d.n + 1
  FROM d WHERE d.destination IS NOT NULL AND d.n < $2)
 SELECT d.destination, EXISTS (SELECT FROM webhook w WHERE w.state = 2 AND w.destination = d.destination AND w.next_at <= clock_timestamp())
 FROM d WHERE d.destination IS NOT NULL ORDER BY d.destination`

// DueDestinations implements store.Webhooks.
func (s *webhookRows) DueDestinations(ctx context.Context, after string, limit int) (page store.WebhookDestinations, err error) {
	limit = pageSize(limit)
	seen := 0
	err = s.query(ctx, "look for webhooks", func(v *scanner) {
		name := v.text()
		if v.boolean() {
			page.Due = append(page.Due, name)
		}
		if seen++; seen == limit {
			page.Next = name
		}
	}, dueDestinationsSQL, encodeText(after), limit)
	return page, err
}

const takeWebhooksSQL = `WITH t AS (SELECT * FROM unnest($1::text[], $2::int[]) AS t (destination, n)),
 l AS MATERIALIZED (SELECT k.id FROM t CROSS JOIN LATERAL (SELECT w.id FROM webhook w WHERE w.state = 2 AND w.destination = t.destination
  AND w.next_at <= clock_timestamp() ORDER BY w.next_at LIMIT t.n FOR UPDATE SKIP LOCKED) k),
 u AS (UPDATE webhook w SET next_at = clock_timestamp() + $3::interval, claim = w.claim + 1 FROM l WHERE w.id = l.id RETURNING w.*)
 SELECT ` + webhookColumns + `, extract(epoch FROM clock_timestamp() - w.since)::bigint FROM u w`

// calledSQL reads ended executions as a notice shows them: without a result that is longer than one holds, and of a longer error its beginning.
const calledSQL = "SELECT " + recordColumns + `, NULL::bytea, CASE WHEN octet_length(coalesce(e.result, o.result)) <= $2 THEN coalesce(e.result, o.result) END,
 CASE WHEN octet_length(coalesce(e.error, o.error)) <= $2 THEN coalesce(e.error, o.error) ELSE substr(coalesce(e.error, o.error), 1, $3) END,
 coalesce(octet_length(coalesce(e.result, o.result)) > $2, false)` + recordFrom + " WHERE e.id = ANY ($1)"

// TakeWebhooks implements store.Webhooks.
func (s *webhookRows) TakeWebhooks(ctx context.Context, takes []store.WebhookTake, lease time.Duration) ([]store.WebhookCall, error) {
	names, limits := make([]string, len(takes)), make([]int32, len(takes))
	for i, t := range takes {
		names[i], limits[i] = encodeText(t.Destination), int32(t.Limit)
	}
	var calls []store.WebhookCall
	var ids column[pgtype.UUID]
	err := s.query(ctx, "take webhooks", func(v *scanner) {
		r := scanWebhook(v)
		calls = append(calls, store.WebhookCall{WebhookRecord: r, Age: time.Duration(v.integer()) * time.Second})
		ids = append(ids, uuidOf(r.Execution))
	}, takeWebhooksSQL, names, limits, intervalOf(lease))
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	type called struct {
		of        messages.Execution
		truncated bool
	}
	found := make(map[messages.ExecutionID]called, len(ids))
	err = s.query(ctx, "read what webhooks tell", func(v *scanner) {
		var r record
		scanWhole(v, &r)
		found[r.ID] = called{r.Execution, v.boolean()}
	}, calledSQL, ids, messages.NoticeResultMax, store.ErrorListed)
	if err != nil {
		return nil, err
	}
	out, gone := calls[:0], column[pgtype.UUID]{}
	for _, c := range calls {
		e, ok := found[c.Execution]
		if !ok {
			gone = append(gone, uuidOf(c.Execution))
			continue
		}
		c.Of, c.Truncated = e.of, e.truncated
		out = append(out, c)
	}
	if len(gone) > 0 {
		_, err = s.exec(ctx, "delete webhooks", "DELETE FROM webhook WHERE id = ANY ($1)", gone)
	}
	return out, err
}

const reportWebhooksSQL = `UPDATE webhook w SET state = i.state, tries = i.tries, code = i.code, error = i.error,
 next_at = CASE WHEN i.state = 2 THEN clock_timestamp() + i.after END, ended_at = CASE WHEN i.state <> 2 THEN clock_timestamp() END
 FROM unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::interval[], $5::int[], $6::int[], $7::text[]) AS i (id, claim, state, after, tries, code, error)
 WHERE w.id = i.id AND w.claim = i.claim AND w.state = 2`

// ReportWebhooks implements store.Webhooks.
func (s *webhookRows) ReportWebhooks(ctx context.Context, reports []store.WebhookReport) error {
	n := len(reports)
	ids, claims, states, after := make(column[pgtype.UUID], n), make([]int64, n), make([]int16, n), make(column[pgtype.Interval], n)
	tries, codes, reasons := make([]int32, n), make([]int32, n), make(column[pgtype.Text], n)
	for i, r := range reports {
		ids[i], claims[i], states[i], after[i] = uuidOf(r.Execution), r.Claim, int16(r.State), intervalOf(r.After)
		tries[i], codes[i], reasons[i] = int32(r.Tries), int32(r.Code), textOf(store.WebhookReason(r.Error))
	}
	_, err := s.exec(ctx, "report webhooks", reportWebhooksSQL, ids, claims, states, after, tries, codes, reasons)
	return err
}

const expireWebhooksSQL = `UPDATE webhook SET state = 4, next_at = NULL, claim = claim + 1, ended_at = clock_timestamp(), error = concat_ws('; ', error, $2::text)
 WHERE id IN (SELECT id FROM webhook WHERE state = 2 AND since < clock_timestamp() - $1::interval AND next_at <= clock_timestamp() ORDER BY since LIMIT $3
  FOR UPDATE SKIP LOCKED)`

// ExpireWebhooks implements store.Webhooks.
func (s *webhookRows) ExpireWebhooks(ctx context.Context, age time.Duration, why string, limit int) (int, error) {
	return s.exec(ctx, "give webhooks up", expireWebhooksSQL, intervalOf(age), why, pageSize(limit))
}

const repeatWebhookSQL = `UPDATE webhook w SET state = 2, tries = 0, since = clock_timestamp(), next_at = clock_timestamp(), ended_at = NULL, claim = claim + 1
 WHERE w.id = $1 AND w.state IN (3, 4) RETURNING ` + webhookColumns

// RepeatWebhook implements store.Webhooks.
func (s *webhookRows) RepeatWebhook(ctx context.Context, id messages.ExecutionID) (r messages.WebhookRecord, err error) {
	done := false
	err = s.query(ctx, "repeat a webhook", func(v *scanner) { r, done = scanWebhook(v), true }, repeatWebhookSQL, uuidOf(id))
	if err != nil || done {
		return r, err
	}
	if r, err = s.Webhook(ctx, id); err == nil {
		err = store.RepeatRefused(&r)
	}
	return r, err
}

const listWebhooksSQL = "SELECT " + webhookColumns + ` FROM webhook w WHERE w.state = $1 AND w.state IN (2, 4) AND (w.since, w.id) > ($2, $3) AND w.since < $4
 ORDER BY w.since, w.id LIMIT $5`

// ListWebhooks implements store.Webhooks.
func (s *webhookRows) ListWebhooks(ctx context.Context, q store.WebhookQuery) (out []messages.WebhookRecord, err error) {
	if q.State != messages.WebhookDue && q.State != messages.WebhookGivenUp {
		return nil, errors.Join(store.ErrInvalid, errors.New("webhooks are listed that are due or given up"))
	}
	after := q.Begin()
	err = s.query(ctx, "list webhooks", func(v *scanner) { out = append(out, scanWebhook(v)) },
		listWebhooksSQL, int16(q.State), boundOf(after.Since, pgtype.NegativeInfinity), pgtype.UUID{Bytes: after.Execution, Valid: true},
		boundOf(q.To, pgtype.Infinity), pageSize(q.Limit))
	return out, err
}

const countWebhooksSQL = `SELECT (SELECT count(*) FROM (SELECT FROM webhook WHERE state = 2 LIMIT $1) k),
 coalesce(extract(epoch FROM clock_timestamp() - (SELECT since FROM webhook WHERE state = 2 ORDER BY since LIMIT 1))::bigint, 0),
 (SELECT count(*) FROM (SELECT FROM webhook WHERE state = 4 LIMIT $1) k)`

func scanWebhookCounts(v *scanner) store.WebhookCounts {
	return store.WebhookCounts{Due: int(v.integer()), Late: time.Duration(v.integer()) * time.Second, GivenUp: int(v.integer())}
}

// CountWebhooks implements store.Webhooks.
func (s *webhookRows) CountWebhooks(ctx context.Context) (c store.WebhookCounts, err error) {
	err = s.query(ctx, "count webhooks", func(v *scanner) {
		c = scanWebhookCounts(v)
	}, countWebhooksSQL, store.WebhookCountMax)
	return c, err
}
