-- The first version of the schema. Later files only add to it, so that nodes of two versions may work at once.
-- All times come from this server's clock. A text that holds a NUL byte or is not UTF-8 is kept as \x and its bytes in
-- hex, as is a text that begins with \x. Parameters, results, errors and output are bytes, so that nothing a program
-- emits is unstorable.

CREATE TABLE execution_status (
    n    smallint PRIMARY KEY,
    name text NOT NULL UNIQUE
);
COMMENT ON TABLE execution_status IS 'The statuses of an execution, by number, in the order an execution passes them.';
INSERT INTO execution_status (n, name) VALUES (1, 'requested'), (2, 'scheduling'), (3, 'scheduled'), (4, 'running'),
    (5, 'cancelling'), (6, 'completed'), (7, 'failed'), (8, 'timed_out'), (9, 'cancelled'), (10, 'abandoned');

CREATE SEQUENCE execution_seq;
COMMENT ON SEQUENCE execution_seq IS 'The insertion order of executions.';

CREATE TABLE request (
    seq             bigint      PRIMARY KEY,
    id              uuid        NOT NULL,
    action          text        NOT NULL CHECK (action <> ''),
    version         text,
    affinity        text,
    labels          jsonb,
    created_by      text,
    trace           text,
    idempotency_key text,
    request_hash    bytea,
    timeout         interval    NOT NULL,
    stall_timeout   interval    NOT NULL,
    wait_for_worker boolean     NOT NULL,
    idempotent      boolean     NOT NULL,
    notify          boolean     NOT NULL,
    may_repeat      boolean     NOT NULL,
    max_retries     integer     NOT NULL,
    retry_count     integer     NOT NULL,
    retry_reason    text,
    original        uuid,
    avoid           text,
    requested_at    timestamptz NOT NULL,
    queue_deadline  timestamptz,
    worker_deadline timestamptz,
    parameters      bytea
);
COMMENT ON TABLE request IS 'The request of an execution. It is written once and never changed, so that no change of an execution rewrites parameters.';
CREATE UNIQUE INDEX request_key ON request (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX request_original ON request (original) WHERE original IS NOT NULL;
CREATE INDEX request_action ON request (action, seq);

CREATE TABLE execution (
    id              uuid        PRIMARY KEY,
    seq             bigint      NOT NULL,
    rank            smallint,
    turn            smallint,
    timer_at        timestamptz,
    on_worker       smallint,
    unusual         smallint,
    queue_by        timestamptz,
    worker_by       timestamptz,
    start_since     timestamptz,
    status          smallint    NOT NULL CHECK (status BETWEEN 1 AND 10),
    attempt         integer     NOT NULL,
    last_change     smallint    NOT NULL,
    priority        smallint    NOT NULL CHECK (priority BETWEEN 0 AND 9),
    pool            text        NOT NULL CHECK (pool <> ''),
    session         text,
    worker_inc      uuid,
    worker_slot     integer     NOT NULL DEFAULT 0,
    worker_id       text,
    generation      integer     NOT NULL DEFAULT 0,
    placed_by       uuid,
    take_backs      integer     NOT NULL DEFAULT 0,
    crash_count     integer     NOT NULL DEFAULT 0,
    run_at          timestamptz NOT NULL,
    first_placed_at timestamptz,
    scheduled_at    timestamptz,
    claim_by        timestamptz,
    started_at      timestamptz,
    run_deadline    timestamptz,
    finished_at     timestamptz,
    session_epoch   bigint      NOT NULL DEFAULT 0,
    session_lost    boolean     NOT NULL DEFAULT false,
    session_hit     boolean     NOT NULL DEFAULT false,
    retried_as      uuid,
    result          bytea,
    error           bytea
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.05,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE execution IS 'The state of each execution. The row is narrow, because every change rewrites it. For people there is the view executions.';
CREATE INDEX execution_waiting ON execution (pool, rank, seq) WHERE rank IS NOT NULL;
CREATE INDEX execution_active ON execution (pool, seq) WHERE on_worker IS NOT NULL;
CREATE INDEX execution_busy ON execution (pool, session) WHERE on_worker IS NOT NULL AND session IS NOT NULL;
CREATE INDEX execution_unusual ON execution (unusual, seq) WHERE unusual IS NOT NULL;
CREATE INDEX execution_turn ON execution (pool, session, seq) WHERE turn IS NOT NULL;
CREATE INDEX execution_turn_fail ON execution (pool, seq) WHERE turn = 2;
CREATE INDEX execution_session ON execution (session, seq) WHERE session IS NOT NULL;
CREATE INDEX execution_timer ON execution (pool, timer_at) WHERE timer_at IS NOT NULL;
CREATE INDEX execution_queue_by ON execution (queue_by) WHERE queue_by IS NOT NULL;
CREATE INDEX execution_worker_by ON execution (worker_by) WHERE worker_by IS NOT NULL;
CREATE INDEX execution_start_since ON execution (start_since) WHERE start_since IS NOT NULL;

CREATE TABLE lane (
    pool          text    NOT NULL,
    session       text    NOT NULL,
    active        integer NOT NULL DEFAULT 0,
    head          uuid,
    head_seq      bigint,
    head_priority smallint,
    PRIMARY KEY (pool, session)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE lane IS 'One row for each session that has executions: how many are on workers, and which one a router should look at. Its row is locked while an execution of the session changes.';
CREATE INDEX lane_head ON lane (pool, head_priority DESC, head_seq) WHERE head IS NOT NULL;

CREATE TABLE outcome (
    seq    bigint PRIMARY KEY,
    result bytea,
    error  bytea
);
COMMENT ON TABLE outcome IS 'Result and error of executions where they are long; short ones stand in the execution''s own row.';

CREATE TABLE output (
    seq        bigint  PRIMARY KEY,
    stdout     bytea,
    stderr     bytea,
    stdout_cut boolean NOT NULL,
    stderr_cut boolean NOT NULL
);
COMMENT ON TABLE output IS 'What the execution''s process wrote.';

CREATE TABLE execution_label (
    key   text   NOT NULL,
    value text   NOT NULL,
    seq   bigint NOT NULL,
    PRIMARY KEY (key, value, seq)
);
COMMENT ON TABLE execution_label IS 'The labels of executions, for lists; the execution''s own copy is in request.';

CREATE TABLE execution_event (
    n       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq     bigint      NOT NULL,
    at      timestamptz NOT NULL,
    attempt integer     NOT NULL,
    kind    text        NOT NULL,
    before  smallint    NOT NULL,
    after   smallint    NOT NULL,
    reason  text,
    worker  text
);
COMMENT ON TABLE execution_event IS 'Every change that is not the straight path, or all of them where the nodes are configured so.';
CREATE INDEX execution_event_seq ON execution_event (seq, n);

CREATE TABLE notice (
    n          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         uuid        NOT NULL UNIQUE,
    at         timestamptz NOT NULL,
    held_until timestamptz NOT NULL DEFAULT '-infinity'
);
COMMENT ON TABLE notice IS 'The outbox: outcomes whose notices were not yet sent to the executions exchange.';

CREATE TABLE submission (
    id              uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    action          text        NOT NULL,
    parameters      jsonb       NOT NULL DEFAULT '{}',
    session         text,
    affinity        text,
    priority        smallint,
    run_at          timestamptz,
    idempotency_key text,
    timeout         interval,
    max_retries     integer,
    labels          jsonb,
    created_by      text,
    trace           text,
    at              timestamptz NOT NULL DEFAULT now(),
    state           text        NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'accepted', 'refused')),
    refused         text,
    settled_at      timestamptz,
    held_until      timestamptz NOT NULL DEFAULT '-infinity'
);
COMMENT ON TABLE submission IS 'The inbox: another program submits an execution by an INSERT of (action, parameters) here, within its own transaction. The execution gets the row''s id.';
CREATE INDEX submission_waiting ON submission (at, id) WHERE state = 'waiting';

CREATE FUNCTION submission_told() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('troupe.' || TG_TABLE_SCHEMA, 'inbox');
    RETURN NULL;
END $$;
COMMENT ON FUNCTION submission_told() IS 'Wakes the nodes when submissions were inserted, once a transaction.';
CREATE TRIGGER submission_told AFTER INSERT ON submission FOR EACH STATEMENT EXECUTE FUNCTION submission_told();
COMMENT ON TRIGGER submission_told ON submission IS 'Wakes the nodes when submissions were inserted.';

CREATE TABLE node (
    incarnation  uuid        PRIMARY KEY,
    name         text        NOT NULL,
    version      text        NOT NULL,
    state        text        NOT NULL CHECK (state IN ('active', 'draining', 'dead')),
    cordoned     boolean     NOT NULL,
    started_at   timestamptz NOT NULL,
    beat_at      timestamptz NOT NULL,
    lease_until  timestamptz NOT NULL,
    steady_since timestamptz NOT NULL,
    address      text        NOT NULL,
    lock         bigint      NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);
COMMENT ON TABLE node IS 'One row for each boot of a node.';

CREATE TABLE worker (
    incarnation        uuid        NOT NULL,
    pool               text        NOT NULL,
    slot               integer     NOT NULL,
    id                 text        NOT NULL,
    generation         integer     NOT NULL,
    runtime            text        NOT NULL,
    state              text        NOT NULL,
    health             text        NOT NULL,
    active             boolean     NOT NULL,
    cordoned           boolean     NOT NULL,
    last_heartbeat     timestamptz,
    heartbeat_interval interval    NOT NULL,
    capabilities       json,
    since              timestamptz,
    PRIMARY KEY (incarnation, pool, slot)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);
COMMENT ON TABLE worker IS 'One row for each slot of each boot of a node.';

CREATE TABLE worker_event (
    n           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    incarnation uuid        NOT NULL,
    pool        text        NOT NULL,
    slot        integer     NOT NULL,
    generation  integer     NOT NULL,
    at          timestamptz NOT NULL,
    before      text        NOT NULL,
    after       text        NOT NULL,
    reason      text        NOT NULL,
    lasted      interval    NOT NULL,
    metadata    json
);
COMMENT ON TABLE worker_event IS 'The transitions of workers.';
CREATE INDEX worker_event_key ON worker_event (incarnation, pool, slot, n);
CREATE INDEX worker_event_at ON worker_event (at);

CREATE TABLE session (
    pool           text        NOT NULL,
    session        text        NOT NULL,
    epoch          bigint      NOT NULL,
    worker_inc     uuid,
    worker_pool    text,
    worker_slot    integer     NOT NULL,
    finished_epoch bigint      NOT NULL DEFAULT 0,
    bound_at       timestamptz,
    touched_at     timestamptz,
    snapshot_epoch bigint      NOT NULL DEFAULT 0,
    started_epoch  bigint      NOT NULL DEFAULT 0,
    runs           bigint      NOT NULL DEFAULT 0,
    bound_runs     bigint      NOT NULL DEFAULT 0,
    snapshot_runs  bigint      NOT NULL DEFAULT 0,
    PRIMARY KEY (pool, session)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);
COMMENT ON TABLE session IS 'Which worker holds a session''s state, fenced by its epoch.';

CREATE TABLE session_snapshot (
    pool    text   NOT NULL,
    session text   NOT NULL,
    epoch   bigint NOT NULL,
    state   bytea  NOT NULL,
    PRIMARY KEY (pool, session)
);
COMMENT ON TABLE session_snapshot IS 'The saved state of sessions whose workers can make snapshots.';

CREATE TABLE dead_letter (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL,
    execution  uuid,
    attempt    integer     NOT NULL,
    action     text        NOT NULL,
    worker     text        NOT NULL,
    queue      text        NOT NULL,
    reason     text        NOT NULL,
    died_at    timestamptz,
    headers    bytea,
    body       bytea,
    resolution text        NOT NULL,
    key        text
);
CREATE UNIQUE INDEX dead_letter_key ON dead_letter (key) WHERE key IS NOT NULL;
COMMENT ON TABLE dead_letter IS 'The forensic record of messages that came back or could not be read.';
CREATE INDEX dead_letter_at ON dead_letter (at);

CREATE TABLE action (
    ref             text        NOT NULL,
    version         text        NOT NULL,
    pool            text        NOT NULL,
    timeout_seconds numeric,
    max_retries     integer     NOT NULL DEFAULT 0,
    definition      json        NOT NULL,
    saved_at        timestamptz NOT NULL,
    PRIMARY KEY (ref, version)
);
COMMENT ON TABLE action IS 'The actions that nodes have served, by version.';

CREATE VIEW executions AS
SELECT e.id, s.name AS status, r.action, r.version, e.pool, e.priority, e.attempt, e.session, e.worker_id AS worker, r.labels,
       r.created_by, r.requested_at, e.run_at, e.scheduled_at, e.started_at, e.finished_at, e.claim_by, e.run_deadline,
       r.queue_deadline, r.timeout, r.max_retries, r.retry_count, r.retry_reason, r.original AS original_execution,
       e.retried_as, e.crash_count, e.take_backs, r.idempotency_key, r.trace, e.seq,
       encode(r.parameters, 'escape') AS parameters, encode(coalesce(e.result, o.result), 'escape') AS result,
       encode(coalesce(e.error, o.error), 'escape') AS error
FROM execution e JOIN request r ON r.seq = e.seq JOIN execution_status s ON s.n = e.status LEFT JOIN outcome o ON o.seq = e.seq;
COMMENT ON VIEW executions IS 'Executions as people read them: one row each, with the status by name and bytes as text.';

CREATE VIEW healthy_workers AS
SELECT w.id, w.pool, w.slot, w.incarnation, n.name AS node, w.generation, w.state, w.health,
       coalesce(w.capabilities #>> '{health,status}', w.health) AS grade, w.last_heartbeat
FROM worker w JOIN node n ON n.incarnation = w.incarnation
WHERE w.active AND NOT w.cordoned AND n.state = 'active' AND NOT n.cordoned
  AND w.last_heartbeat + 3 * w.heartbeat_interval >= clock_timestamp()
  AND coalesce(w.capabilities #>> '{health,status}', w.health) <> 'unhealthy';
COMMENT ON VIEW healthy_workers IS 'Workers that may be given work: active, fresh by their own interval (three beats), healthy or degraded with the grade shown.';

CREATE FUNCTION get_worker_queue_depth(worker text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM execution e WHERE e.on_worker IS NOT NULL AND e.status = 3 AND e.worker_id = worker
$$;
COMMENT ON FUNCTION get_worker_queue_depth(text) IS 'How many executions are placed on the worker and not yet claimed.';

CREATE FUNCTION is_execution_retriable(execution uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT e.status IN (7, 8, 10) AND e.retried_as IS NULL AND r.retry_count < r.max_retries
                     FROM execution e JOIN request r ON r.seq = e.seq WHERE e.id = $1), false)
$$;
COMMENT ON FUNCTION is_execution_retriable(uuid) IS 'Whether the execution ended without success, was not retried, and has retries left. Whether its error may be repeated is for the classification of the nodes to say.';

-- What the columns and indexes are for.
COMMENT ON COLUMN execution_status.n IS 'The number in execution.status.';
COMMENT ON COLUMN execution_status.name IS 'The status''s name.';
COMMENT ON COLUMN request.seq IS 'The insertion order; the same in every table.';
COMMENT ON COLUMN request.id IS 'The execution''s id.';
COMMENT ON COLUMN request.action IS 'The action''s reference.';
COMMENT ON COLUMN request.version IS 'The version of the pack that it was submitted against.';
COMMENT ON COLUMN request.affinity IS 'hint, strict or strict_fail; NULL without a session.';
COMMENT ON COLUMN request.labels IS 'JSON object of texts.';
COMMENT ON COLUMN request.created_by IS 'Who submitted it.';
COMMENT ON COLUMN request.trace IS 'W3C traceparent.';
COMMENT ON COLUMN request.idempotency_key IS 'At most one execution has it.';
COMMENT ON COLUMN request.request_hash IS 'Hash of the request under its idempotency key.';
COMMENT ON COLUMN request.timeout IS 'How long it may run; 0: without end.';
COMMENT ON COLUMN request.stall_timeout IS 'How long it may show no progress; 0: for ever.';
COMMENT ON COLUMN request.wait_for_worker IS 'Where there is no worker of the pool at all, it waits.';
COMMENT ON COLUMN request.idempotent IS 'It may run twice without harm.';
COMMENT ON COLUMN request.notify IS 'Whether a notice of its outcome is sent to the executions exchange.';
COMMENT ON COLUMN request.may_repeat IS 'It may be repeated after its worker was lost.';
COMMENT ON COLUMN request.max_retries IS 'How many retries may follow the first execution.';
COMMENT ON COLUMN request.retry_count IS 'Which retry it is; 0: the first execution.';
COMMENT ON COLUMN request.retry_reason IS 'Why it is a retry.';
COMMENT ON COLUMN request.original IS 'First execution of the retry chain; NULL for the first itself.';
COMMENT ON COLUMN request.avoid IS 'The worker that failed the execution this one retries.';
COMMENT ON COLUMN request.requested_at IS 'When it was stored.';
COMMENT ON COLUMN request.queue_deadline IS 'Until when it may wait for a start.';
COMMENT ON COLUMN request.worker_deadline IS 'Until when it may wait for any worker.';
COMMENT ON COLUMN request.parameters IS 'JSON as bytes.';
COMMENT ON COLUMN execution.id IS 'The execution''s id, a UUIDv7.';
COMMENT ON COLUMN execution.seq IS 'The insertion order; the same in every table.';
COMMENT ON COLUMN execution.rank IS 'While it waits: lane * 16 + 9 - priority, where lane is 0 due, 1 due in its session''s turn, 2 waits for run_at.';
COMMENT ON COLUMN execution.turn IS 'While it waits for its session''s turn: 1, or 2 for affinity strict_fail.';
COMMENT ON COLUMN execution.timer_at IS 'run_at, while it waits for it.';
COMMENT ON COLUMN execution.on_worker IS '1 while scheduled, running or cancelling.';
COMMENT ON COLUMN execution.unusual IS 'The status once it has ended otherwise than completed.';
COMMENT ON COLUMN execution.queue_by IS 'request.queue_deadline, until it is claimed.';
COMMENT ON COLUMN execution.worker_by IS 'request.worker_deadline, while it waits.';
COMMENT ON COLUMN execution.start_since IS 'first_placed_at, while it waits again without ever having started.';
COMMENT ON COLUMN execution.status IS 'See execution_status.';
COMMENT ON COLUMN execution.attempt IS 'The fencing number of its current placement; 0: never placed.';
COMMENT ON COLUMN execution.last_change IS 'Which change brought it here: 0 submit, 1 place, 2 take_back, 3 claim, 4 finish, 5 end, 6 cancel, 7 rescue.';
COMMENT ON COLUMN execution.priority IS '9 runs first, 0 last.';
COMMENT ON COLUMN execution.pool IS 'The pool whose workers may run it.';
COMMENT ON COLUMN execution.session IS 'The session that it belongs to.';
COMMENT ON COLUMN execution.worker_inc IS 'The incarnation of its worker.';
COMMENT ON COLUMN execution.worker_slot IS 'The slot of its worker.';
COMMENT ON COLUMN execution.worker_id IS 'Its worker''s name.';
COMMENT ON COLUMN execution.generation IS 'The worker''s generation that claimed it.';
COMMENT ON COLUMN execution.placed_by IS 'The incarnation that placed it.';
COMMENT ON COLUMN execution.take_backs IS 'Placements in a row that were taken back.';
COMMENT ON COLUMN execution.crash_count IS 'Workers that died while running it.';
COMMENT ON COLUMN execution.run_at IS 'The earliest start.';
COMMENT ON COLUMN execution.first_placed_at IS 'When it was placed for the first time.';
COMMENT ON COLUMN execution.scheduled_at IS 'When it was placed.';
COMMENT ON COLUMN execution.claim_by IS 'Until when its worker may claim it.';
COMMENT ON COLUMN execution.started_at IS 'When it was claimed.';
COMMENT ON COLUMN execution.run_deadline IS 'Until when it may run.';
COMMENT ON COLUMN execution.finished_at IS 'When it got its outcome.';
COMMENT ON COLUMN execution.session_epoch IS 'The session''s epoch that was sent to its run.';
COMMENT ON COLUMN execution.session_lost IS 'Whether its run got lost: true.';
COMMENT ON COLUMN execution.session_hit IS 'Whether its run got hit: true.';
COMMENT ON COLUMN execution.retried_as IS 'The retry that follows.';
COMMENT ON COLUMN execution.result IS 'A short result, JSON as bytes; a long one is in outcome.';
COMMENT ON COLUMN execution.error IS 'A short error, JSON as bytes; a long one is in outcome.';
COMMENT ON COLUMN lane.pool IS 'The pool.';
COMMENT ON COLUMN lane.session IS 'The session''s name.';
COMMENT ON COLUMN lane.active IS 'How many of its executions are scheduled, running or cancelling.';
COMMENT ON COLUMN lane.head IS 'The waiting execution that a router should look at: the first in turn; none while the session is busy.';
COMMENT ON COLUMN lane.head_seq IS 'The head''s seq.';
COMMENT ON COLUMN lane.head_priority IS 'The head''s priority.';
COMMENT ON COLUMN outcome.seq IS 'The execution''s seq.';
COMMENT ON COLUMN outcome.result IS 'JSON as bytes.';
COMMENT ON COLUMN outcome.error IS 'JSON as bytes.';
COMMENT ON COLUMN output.seq IS 'The execution''s seq.';
COMMENT ON COLUMN output.stdout IS 'Standard output.';
COMMENT ON COLUMN output.stderr IS 'Standard error.';
COMMENT ON COLUMN output.stdout_cut IS 'More came than was kept.';
COMMENT ON COLUMN output.stderr_cut IS 'More came than was kept.';
COMMENT ON COLUMN execution_label.key IS 'The label''s key.';
COMMENT ON COLUMN execution_label.value IS 'Its value.';
COMMENT ON COLUMN execution_label.seq IS 'The execution''s seq.';
COMMENT ON COLUMN execution_event.n IS 'Its number, in order of insertion.';
COMMENT ON COLUMN execution_event.seq IS 'The execution''s seq.';
COMMENT ON COLUMN execution_event.at IS 'When it happened.';
COMMENT ON COLUMN execution_event.attempt IS 'The attempt that it concerns.';
COMMENT ON COLUMN execution_event.kind IS 'The change''s name, or stale_write, dead_letter, retry.';
COMMENT ON COLUMN execution_event.before IS 'The status before.';
COMMENT ON COLUMN execution_event.after IS 'The status after.';
COMMENT ON COLUMN execution_event.reason IS 'Why.';
COMMENT ON COLUMN execution_event.worker IS 'On which worker.';
COMMENT ON COLUMN notice.n IS 'Its number, in order of the outcomes.';
COMMENT ON COLUMN notice.id IS 'The execution''s id.';
COMMENT ON COLUMN notice.at IS 'When the execution ended.';
COMMENT ON COLUMN notice.held_until IS 'Until when the node that took it may send it.';
COMMENT ON COLUMN submission.id IS 'The id that the execution gets.';
COMMENT ON COLUMN submission.action IS 'The action''s reference.';
COMMENT ON COLUMN submission.parameters IS 'JSON object for the action.';
COMMENT ON COLUMN submission.session IS 'The session that it belongs to.';
COMMENT ON COLUMN submission.affinity IS 'hint, strict or strict_fail; NULL: the action''s.';
COMMENT ON COLUMN submission.priority IS '0 to 9; NULL: 5.';
COMMENT ON COLUMN submission.run_at IS 'It does not start before; NULL: at once.';
COMMENT ON COLUMN submission.idempotency_key IS 'A second submission with this key makes no second execution.';
COMMENT ON COLUMN submission.timeout IS 'How long it may run; NULL: the action''s.';
COMMENT ON COLUMN submission.max_retries IS 'NULL: the action''s.';
COMMENT ON COLUMN submission.labels IS 'JSON object of texts.';
COMMENT ON COLUMN submission.created_by IS 'Who submits.';
COMMENT ON COLUMN submission.trace IS 'W3C traceparent.';
COMMENT ON COLUMN submission.at IS 'When it was inserted.';
COMMENT ON COLUMN submission.state IS 'waiting, accepted or refused.';
COMMENT ON COLUMN submission.refused IS 'Why no execution was made.';
COMMENT ON COLUMN submission.settled_at IS 'When it was accepted or refused.';
COMMENT ON COLUMN submission.held_until IS 'Until when the node that took it may settle it.';
COMMENT ON COLUMN node.incarnation IS 'The boot''s own id, never used again.';
COMMENT ON COLUMN node.name IS 'The configured name.';
COMMENT ON COLUMN node.version IS 'The version that it runs.';
COMMENT ON COLUMN node.state IS 'active, draining or dead; dead is final.';
COMMENT ON COLUMN node.cordoned IS 'An operator wants no new work on it.';
COMMENT ON COLUMN node.started_at IS 'When it booted.';
COMMENT ON COLUMN node.beat_at IS 'When it was last seen.';
COMMENT ON COLUMN node.lease_until IS 'Until when its lease holds.';
COMMENT ON COLUMN node.steady_since IS 'Since when its lease has been renewed without a gap.';
COMMENT ON COLUMN node.address IS 'Where its peers reach it.';
COMMENT ON COLUMN node.lock IS 'The key of the advisory lock that its connection holds.';
COMMENT ON COLUMN worker.incarnation IS 'Its node''s boot.';
COMMENT ON COLUMN worker.pool IS 'Its pool.';
COMMENT ON COLUMN worker.slot IS 'Its slot in the pool''s share of the node.';
COMMENT ON COLUMN worker.id IS 'Its name: node/pool/slot.';
COMMENT ON COLUMN worker.generation IS 'How often the slot was started.';
COMMENT ON COLUMN worker.runtime IS 'How it runs actions.';
COMMENT ON COLUMN worker.state IS 'The state of its lifecycle.';
COMMENT ON COLUMN worker.health IS 'unknown, healthy or unhealthy.';
COMMENT ON COLUMN worker.active IS 'It may be given work.';
COMMENT ON COLUMN worker.cordoned IS 'An operator wants no new work on it.';
COMMENT ON COLUMN worker.last_heartbeat IS 'The time of its last heartbeat.';
COMMENT ON COLUMN worker.heartbeat_interval IS 'How often its node writes a heartbeat.';
COMMENT ON COLUMN worker.capabilities IS 'The report of its node; health.status is its grade.';
COMMENT ON COLUMN worker.since IS 'Since when it is in its state.';
COMMENT ON COLUMN worker_event.n IS 'Its number, in order of insertion.';
COMMENT ON COLUMN worker_event.incarnation IS 'The worker''s node.';
COMMENT ON COLUMN worker_event.pool IS 'The worker''s pool.';
COMMENT ON COLUMN worker_event.slot IS 'The worker''s slot.';
COMMENT ON COLUMN worker_event.generation IS 'The worker''s generation.';
COMMENT ON COLUMN worker_event.at IS 'When it happened.';
COMMENT ON COLUMN worker_event.before IS 'The state that it left.';
COMMENT ON COLUMN worker_event.after IS 'The state that it entered.';
COMMENT ON COLUMN worker_event.reason IS 'Why.';
COMMENT ON COLUMN worker_event.lasted IS 'How long it was in the state it left.';
COMMENT ON COLUMN worker_event.metadata IS 'More details.';
COMMENT ON COLUMN session.pool IS 'The pool.';
COMMENT ON COLUMN session.session IS 'The session''s name.';
COMMENT ON COLUMN session.epoch IS 'Counts the bindings.';
COMMENT ON COLUMN session.worker_inc IS 'The bound worker''s incarnation; NULL: unbound.';
COMMENT ON COLUMN session.worker_pool IS 'The bound worker''s pool.';
COMMENT ON COLUMN session.worker_slot IS 'The bound worker''s slot.';
COMMENT ON COLUMN session.finished_epoch IS 'The epoch of its last finished execution.';
COMMENT ON COLUMN session.bound_at IS 'When it was bound.';
COMMENT ON COLUMN session.touched_at IS 'When it was last used.';
COMMENT ON COLUMN session.snapshot_epoch IS 'The epoch of its kept state; 0: none.';
COMMENT ON COLUMN session.started_epoch IS 'The epoch of the first run that was claimed to use its state; 0: none.';
COMMENT ON COLUMN session.runs IS 'Finished runs that left their state with their worker.';
COMMENT ON COLUMN session.bound_runs IS 'The value of runs when the present binding was made.';
COMMENT ON COLUMN session.snapshot_runs IS 'How many of the runs the kept state holds.';
COMMENT ON COLUMN session_snapshot.pool IS 'The pool.';
COMMENT ON COLUMN session_snapshot.session IS 'The session''s name.';
COMMENT ON COLUMN session_snapshot.epoch IS 'The epoch that the state is of.';
COMMENT ON COLUMN session_snapshot.state IS 'JSON as bytes.';
COMMENT ON COLUMN dead_letter.id IS 'Its number.';
COMMENT ON COLUMN dead_letter.at IS 'When it was kept.';
COMMENT ON COLUMN dead_letter.execution IS 'The execution that it names.';
COMMENT ON COLUMN dead_letter.attempt IS 'The attempt that it names.';
COMMENT ON COLUMN dead_letter.action IS 'The action that it names.';
COMMENT ON COLUMN dead_letter.worker IS 'The worker whose queue it came from.';
COMMENT ON COLUMN dead_letter.queue IS 'The queue that it came from.';
COMMENT ON COLUMN dead_letter.reason IS 'expired, rejected, maxlen, delivery_limit or malformed.';
COMMENT ON COLUMN dead_letter.died_at IS 'When it was dead-lettered.';
COMMENT ON COLUMN dead_letter.headers IS 'Its headers, JSON as bytes.';
COMMENT ON COLUMN dead_letter.body IS 'Its body.';
COMMENT ON COLUMN dead_letter.key IS 'Names the death, so that a message that is handled twice leaves one record; NULL: it does not say.';
COMMENT ON COLUMN dead_letter.resolution IS 'failed, stale, missing, quarantined, requeued or discarded.';
COMMENT ON COLUMN action.ref IS 'The action''s reference.';
COMMENT ON COLUMN action.version IS 'Its pack''s version.';
COMMENT ON COLUMN action.pool IS 'The pool that runs it.';
COMMENT ON COLUMN action.timeout_seconds IS 'How long it may run; NULL: the configured default.';
COMMENT ON COLUMN action.max_retries IS 'How many retries it may have.';
COMMENT ON COLUMN action.definition IS 'The whole definition.';
COMMENT ON COLUMN action.saved_at IS 'When a node last served it.';
COMMENT ON COLUMN executions.id IS 'The execution''s id.';
COMMENT ON COLUMN executions.status IS 'Its status, by name.';
COMMENT ON COLUMN executions.result IS 'The result; bytes that are no text as octal escapes.';
COMMENT ON COLUMN executions.error IS 'The error; bytes that are no text as octal escapes.';
COMMENT ON COLUMN executions.parameters IS 'The parameters; bytes that are no text as octal escapes.';
COMMENT ON COLUMN healthy_workers.grade IS 'healthy or degraded.';
COMMENT ON COLUMN healthy_workers.node IS 'The configured name of its node.';
COMMENT ON INDEX execution_status_pkey IS 'The status of a number.';
COMMENT ON INDEX execution_status_name_key IS 'The number of a status.';
COMMENT ON INDEX request_pkey IS 'The request of an execution; lists.';
COMMENT ON INDEX request_key IS 'One execution an idempotency key.';
COMMENT ON INDEX request_original IS 'Retry chains.';
COMMENT ON INDEX request_action IS 'Lists by action.';
COMMENT ON INDEX execution_pkey IS 'Changes and reads of one execution.';
COMMENT ON INDEX execution_waiting IS 'Executions that a router may place, best first; also lists of waiting executions.';
COMMENT ON INDEX execution_active IS 'Executions on workers, for take-over and sweeps.';
COMMENT ON INDEX execution_unusual IS 'Lists by outcome, other than completed.';
COMMENT ON INDEX execution_turn IS 'The next in turn of a session.';
COMMENT ON INDEX execution_turn_fail IS 'The strict_fails that wait, of which those behind another fail at once.';
COMMENT ON INDEX execution_session IS 'Lists by session.';
COMMENT ON INDEX execution_timer IS 'Executions by the time at which they become due.';
COMMENT ON INDEX execution_queue_by IS 'The sweep for queue deadlines.';
COMMENT ON INDEX execution_worker_by IS 'The sweep for waits for any worker.';
COMMENT ON INDEX execution_start_since IS 'For the timeout monitor: executions that were taken back.';
COMMENT ON INDEX lane_pkey IS 'One row a session.';
COMMENT ON INDEX lane_head IS 'The sessions that a router may look at, best first.';
COMMENT ON INDEX outcome_pkey IS 'The long outcome of an execution.';
COMMENT ON INDEX output_pkey IS 'The output of an execution.';
COMMENT ON INDEX execution_label_pkey IS 'Lists by label.';
COMMENT ON INDEX execution_event_pkey IS 'One row an event.';
COMMENT ON INDEX execution_event_seq IS 'The events of an execution.';
COMMENT ON INDEX notice_pkey IS 'The oldest notices.';
COMMENT ON INDEX notice_id_key IS 'Notices that were sent.';
COMMENT ON INDEX submission_pkey IS 'One row a submission.';
COMMENT ON INDEX submission_waiting IS 'The oldest submissions that nobody has settled.';
COMMENT ON INDEX node_pkey IS 'One row a boot.';
COMMENT ON INDEX worker_pkey IS 'One row a slot.';
COMMENT ON INDEX worker_event_pkey IS 'One row an event.';
COMMENT ON INDEX worker_event_key IS 'The events of a worker.';
COMMENT ON INDEX worker_event_at IS 'Old events.';
COMMENT ON INDEX session_pkey IS 'One row a session.';
COMMENT ON INDEX session_snapshot_pkey IS 'One state a session.';
COMMENT ON INDEX dead_letter_pkey IS 'One row a dead letter.';
COMMENT ON INDEX dead_letter_at IS 'Old dead letters; statistics.';
COMMENT ON INDEX action_pkey IS 'One row a version of an action.';
COMMENT ON INDEX execution_busy IS 'Whether a session is busy.';
COMMENT ON INDEX dead_letter_key IS 'One record a death.';
