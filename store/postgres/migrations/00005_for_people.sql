-- What had no comment yet, a narrower healthy_workers, and an index of the inbox. Nodes of the version before work on.

CREATE OR REPLACE VIEW healthy_workers AS
SELECT w.id, w.pool, w.slot, w.incarnation, n.name AS node, w.generation, w.state, w.health,
       coalesce(w.capabilities #>> '{health,status}', w.health) AS grade, w.last_heartbeat
FROM worker w JOIN node n ON n.incarnation = w.incarnation
WHERE w.active AND NOT w.cordoned AND n.state = 'active' AND NOT n.cordoned
  AND NOT EXISTS (SELECT FROM pool_cordon c WHERE c.pool = w.pool)
  AND w.last_heartbeat + 3 * w.heartbeat_interval >= clock_timestamp()
  AND coalesce(w.capabilities #>> '{health,status}', w.health) IN ('healthy', 'degraded');

COMMENT ON SEQUENCE execution_event_n_seq IS 'The numbers of execution_event.n.';
COMMENT ON SEQUENCE notice_n_seq IS 'The numbers of notice.n.';
COMMENT ON SEQUENCE worker_event_n_seq IS 'The numbers of worker_event.n.';
COMMENT ON SEQUENCE dead_letter_id_seq IS 'The numbers of dead_letter.id.';

COMMENT ON COLUMN executions.action IS 'The action''s reference.';
COMMENT ON COLUMN executions.version IS 'The version of the pack that it was submitted against.';
COMMENT ON COLUMN executions.pool IS 'The pool whose workers may run it.';
COMMENT ON COLUMN executions.priority IS '9 runs first, 0 last.';
COMMENT ON COLUMN executions.attempt IS 'The fencing number of its current placement; 0: never placed.';
COMMENT ON COLUMN executions.session IS 'The session that it belongs to; NULL: none.';
COMMENT ON COLUMN executions.worker IS 'Its worker''s name, node/pool/slot; NULL while it waits.';
COMMENT ON COLUMN executions.labels IS 'JSON object of texts.';
COMMENT ON COLUMN executions.created_by IS 'Who submitted it.';
COMMENT ON COLUMN executions.requested_at IS 'When it was stored.';
COMMENT ON COLUMN executions.run_at IS 'The earliest start.';
COMMENT ON COLUMN executions.scheduled_at IS 'When it was placed.';
COMMENT ON COLUMN executions.started_at IS 'When it was claimed.';
COMMENT ON COLUMN executions.finished_at IS 'When it got its outcome.';
COMMENT ON COLUMN executions.claim_by IS 'Until when its worker may claim it.';
COMMENT ON COLUMN executions.run_deadline IS 'Until when it may run; NULL: without end, or not claimed yet.';
COMMENT ON COLUMN executions.queue_deadline IS 'Until when it may wait for a start; NULL: it has no such deadline.';
COMMENT ON COLUMN executions.timeout IS 'How long it may run; 0: without end.';
COMMENT ON COLUMN executions.max_retries IS 'How many retries may follow the first execution.';
COMMENT ON COLUMN executions.retry_count IS 'Which retry it is; 0: the first execution.';
COMMENT ON COLUMN executions.retry_reason IS 'Why it is a retry.';
COMMENT ON COLUMN executions.original_execution IS 'First execution of the retry chain; NULL for the first itself.';
COMMENT ON COLUMN executions.retried_as IS 'The retry that follows.';
COMMENT ON COLUMN executions.crash_count IS 'Workers that died while running it.';
COMMENT ON COLUMN executions.take_backs IS 'Placements in a row that were taken back.';
COMMENT ON COLUMN executions.idempotency_key IS 'At most one execution has it.';
COMMENT ON COLUMN executions.trace IS 'W3C traceparent.';
COMMENT ON COLUMN executions.seq IS 'The insertion order; the same in every table.';

COMMENT ON VIEW healthy_workers IS 'Workers that may get work. They are active on an active node, and neither worker, node nor pool is cordoned. Their heartbeat is at most three of their own intervals old, whatever the nodes are configured to. Their grade is healthy or degraded.';
COMMENT ON COLUMN healthy_workers.id IS 'Its name: node/pool/slot.';
COMMENT ON COLUMN healthy_workers.pool IS 'Its pool.';
COMMENT ON COLUMN healthy_workers.slot IS 'Its slot in the pool''s share of the node.';
COMMENT ON COLUMN healthy_workers.incarnation IS 'Its node''s boot.';
COMMENT ON COLUMN healthy_workers.generation IS 'How often the slot was started.';
COMMENT ON COLUMN healthy_workers.state IS 'The state of its lifecycle. Workers of every state are shown.';
COMMENT ON COLUMN healthy_workers.health IS 'The result of its last probes: healthy, unhealthy, or unknown before the first.';
COMMENT ON COLUMN healthy_workers.grade IS 'The grade that its node reports: healthy or degraded, or unknown before the first report. Without a grade, its health.';
COMMENT ON COLUMN healthy_workers.last_heartbeat IS 'The time of its last heartbeat.';

-- Only the owner may comment on a schema, and a comment that somebody has made stays.
DO $$
DECLARE
    ours name;
BEGIN
    SELECT nspname INTO ours FROM pg_namespace
    WHERE nspname = current_schema() AND pg_has_role(nspowner, 'USAGE') AND obj_description(oid, 'pg_namespace') IS NULL;
    IF FOUND THEN
        EXECUTE format('COMMENT ON SCHEMA %I IS %L', ours, 'Troupe: executions, the nodes and workers that run them, and their outcomes.');
    END IF;
END $$;

COMMENT ON COLUMN execution.timer_at IS 'run_at, while it waits for it; of one with a session that was submitted in a program''s own transaction, that one''s begin, until it takes its turn.';

-- Programs look keys up in the inbox, where much waits while no node runs.
CREATE INDEX submission_key ON submission (idempotency_key) WHERE state = 'waiting' AND idempotency_key IS NOT NULL;
COMMENT ON INDEX submission_key IS 'Waiting submissions with an idempotency key.';
