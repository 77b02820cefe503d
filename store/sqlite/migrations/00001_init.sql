-- +goose Up

-- SQLite keeps no comments on objects; these lines stand in their place. All times are microseconds since 1970 in UTC,
-- 0 where the moment has not come; ids are 16 bytes; statuses are the numbers of messages.Status.

-- meta: small facts about the store itself, by name.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- request: what was asked, written once and never changed, so that no change of an execution rewrites parameters.
CREATE TABLE request (
    seq             INTEGER PRIMARY KEY,              -- the store's insertion order; the same in every table
    id              BLOB    NOT NULL CHECK (length(id) = 16),
    action          TEXT    NOT NULL CHECK (action <> ''),
    version         TEXT,
    affinity        TEXT,
    labels          BLOB,                             -- JSON object of texts
    created_by      TEXT,
    trace           TEXT,
    idempotency_key TEXT,
    request_hash    BLOB,
    timeout         INTEGER NOT NULL,                 -- microseconds, as are the other durations
    stall_timeout   INTEGER NOT NULL,
    flags           INTEGER NOT NULL,                 -- 1 wait for worker, 2 idempotent, 4 may repeat
    max_retries     INTEGER NOT NULL,
    retry_count     INTEGER NOT NULL,
    retry_reason    TEXT,
    original        BLOB,                             -- first execution of the retry chain
    avoid           TEXT,                             -- the worker that failed the execution this one retries
    requested_at    INTEGER NOT NULL,
    parameters      BLOB
);
CREATE UNIQUE INDEX request_id ON request (id);
CREATE UNIQUE INDEX request_key ON request (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX request_original ON request (original) WHERE original IS NOT NULL;
CREATE INDEX request_action ON request (action);

-- pool: a number for each pool's name, so that the index of what waits compares numbers.
CREATE TABLE pool (
    n    INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- execution: where each one stands; narrow, because every change rewrites its row. Each of its partial indexes has a
-- column of its own that is NULL for all other rows, so that a change opens only the indexes that it moves: a placement
-- two, a claim none, a finish that completed one.
CREATE TABLE execution (
    seq             INTEGER PRIMARY KEY,
    rank            INTEGER,                          -- while waiting: pool.n * 64 + lane * 16 + 9 - priority, where lane is
                                                      -- 0 due, 1 due in its session's turn, 2 waits for run_at
    on_worker       INTEGER,                          -- 1 while scheduled, running or cancelling
    unusual         INTEGER,                          -- the status once it has ended otherwise than completed
    status          INTEGER NOT NULL CHECK (status BETWEEN 1 AND 10),
    attempt         INTEGER NOT NULL,
    last_change     INTEGER NOT NULL,                 -- which change brought it here
    priority        INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
    pool            TEXT    NOT NULL CHECK (pool <> ''),
    session         TEXT,
    worker_inc      BLOB,
    worker_slot     INTEGER NOT NULL DEFAULT 0,
    worker_id       TEXT,
    generation      INTEGER NOT NULL DEFAULT 0,
    placed_by       BLOB,
    take_backs      INTEGER NOT NULL DEFAULT 0,
    crash_count     INTEGER NOT NULL DEFAULT 0,
    run_at          INTEGER NOT NULL,
    first_placed_at INTEGER NOT NULL DEFAULT 0,
    scheduled_at    INTEGER NOT NULL DEFAULT 0,
    claim_by        INTEGER NOT NULL DEFAULT 0,
    started_at      INTEGER NOT NULL DEFAULT 0,
    run_deadline    INTEGER NOT NULL DEFAULT 0,
    finished_at     INTEGER NOT NULL DEFAULT 0,
    queue_deadline  INTEGER NOT NULL,
    worker_deadline INTEGER NOT NULL,
    session_epoch   INTEGER NOT NULL DEFAULT 0,
    session_flags   INTEGER NOT NULL DEFAULT 0,       -- 1 lost, 2 hit
    retried_as      BLOB,
    result          BLOB,                             -- a short outcome; a long one is in outcome
    error           BLOB,
    room            BLOB                              -- nothing: place for what the row's changes add, so that no page splits
);
-- What a router may place, best first; also the waiting rows of a list.
CREATE INDEX execution_waiting ON execution (rank) WHERE rank IS NOT NULL;
-- The rows on workers: few, so one small index serves take-over and every sweep over them.
CREATE INDEX execution_active ON execution (on_worker) WHERE on_worker IS NOT NULL;
-- Lists by unusual outcome and by session. By pool, by worker, and of what completed, a list looks back from the newest.
CREATE INDEX execution_unusual ON execution (unusual) WHERE unusual IS NOT NULL;
CREATE INDEX execution_session ON execution (session) WHERE session IS NOT NULL;
-- turn, busy, timer and deadline stand for partial indexes of execution that few rows would be in: as tables they cost the
-- rows that are in them, and nothing to all others, whose updates would open every index.

-- turn: what waits for its session's turn (lane 1), in order.
CREATE TABLE turn (
    pool     TEXT    NOT NULL,
    session  TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    fail     INTEGER NOT NULL,                        -- 1: affinity strict_fail
    PRIMARY KEY (pool, session, seq)
) WITHOUT ROWID;
CREATE INDEX turn_fail ON turn (pool, session, seq) WHERE fail = 1;

-- busy: what stands on a worker and has a session.
CREATE TABLE busy (
    pool    TEXT    NOT NULL,
    session TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    PRIMARY KEY (pool, session, seq)
) WITHOUT ROWID;

-- head: what a router should see of each session, which follows from turn and busy: its first turn; while it is busy,
-- its first strict_fail. In head_order they stand best first, so that neither deep nor busy sessions cost a look anything.
CREATE TABLE head (
    pool     TEXT    NOT NULL,
    session  TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    PRIMARY KEY (pool, session)
) WITHOUT ROWID;
CREATE INDEX head_order ON head (pool, priority DESC, seq);

-- timer: what waits for its run_at (lane 2).
CREATE TABLE timer (
    pool   TEXT    NOT NULL,
    run_at INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    PRIMARY KEY (pool, run_at, seq)
) WITHOUT ROWID;

-- deadline: waiting rows that a sweep must find. kind 1: queue_deadline, until claimed; 2: worker_deadline, while
-- waiting; 3: first_placed_at of what was taken back before it ever started.
CREATE TABLE deadline (
    kind INTEGER NOT NULL,
    at   INTEGER NOT NULL,
    seq  INTEGER NOT NULL,
    PRIMARY KEY (kind, at, seq)
) WITHOUT ROWID;

-- outcome: result and error of those that are long; bytes, so that nothing a program emits is unstorable.
CREATE TABLE outcome (
    seq    INTEGER PRIMARY KEY,
    result BLOB,
    error  BLOB                                       -- JSON of messages.Error
);

-- output: what the execution's process wrote.
CREATE TABLE output (
    seq    INTEGER PRIMARY KEY,
    stdout BLOB,
    stderr BLOB,
    cut    INTEGER NOT NULL                           -- 1 stdout, 2 stderr was cut at the bound
);

-- execution_label: labels for lists; the row's own copy is request.labels.
CREATE TABLE execution_label (
    key   TEXT    NOT NULL,
    value TEXT    NOT NULL,
    seq   INTEGER NOT NULL,
    PRIMARY KEY (key, value, seq)
) WITHOUT ROWID;

-- execution_event: every change that is not the straight path (or all of them, by configuration).
CREATE TABLE execution_event (
    n       INTEGER PRIMARY KEY,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    before  INTEGER NOT NULL,
    after   INTEGER NOT NULL,
    reason  TEXT,
    worker  TEXT
);
CREATE INDEX execution_event_seq ON execution_event (seq);

-- node: one row for each boot of a node.
CREATE TABLE node (
    incarnation BLOB PRIMARY KEY,
    name        TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    state       TEXT    NOT NULL,                     -- active, draining, dead
    cordoned    INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    beat_at     INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    address     TEXT    NOT NULL
) WITHOUT ROWID;

-- worker: one row for each slot of each incarnation.
CREATE TABLE worker (
    incarnation  BLOB    NOT NULL,
    pool         TEXT    NOT NULL,
    slot         INTEGER NOT NULL,
    id           TEXT    NOT NULL,
    generation   INTEGER NOT NULL,
    runtime      TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    health       TEXT    NOT NULL,
    active       INTEGER NOT NULL,
    cordoned     INTEGER NOT NULL,
    beat_at      INTEGER NOT NULL,                    -- last_heartbeat
    beat_every   INTEGER NOT NULL,                    -- heartbeat_interval, microseconds
    capabilities BLOB,                                -- JSON
    since        INTEGER NOT NULL,
    PRIMARY KEY (incarnation, pool, slot)
) WITHOUT ROWID;

-- healthy_workers: active, fresh by their own interval (three beats), healthy or degraded with the grade shown.
CREATE VIEW healthy_workers AS
SELECT w.id, w.pool, w.slot, hex(w.incarnation) AS incarnation, w.generation, w.state, w.health,
       coalesce(CASE WHEN json_valid(w.capabilities) THEN w.capabilities ->> '$.health.status' END, w.health) AS grade, w.beat_at
FROM worker w JOIN node n ON n.incarnation = w.incarnation
WHERE w.active = 1 AND n.state = 'active' AND w.beat_at > 0
  AND w.beat_at + 3 * w.beat_every >= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
  AND grade <> 'unhealthy';

-- worker_event: the stored transitions of workers.
CREATE TABLE worker_event (
    n           INTEGER PRIMARY KEY,
    incarnation BLOB    NOT NULL,
    pool        TEXT    NOT NULL,
    slot        INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    before      TEXT    NOT NULL,
    after       TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    lasted      INTEGER NOT NULL,                     -- microseconds in the state it left
    metadata    BLOB                                  -- JSON
);
CREATE INDEX worker_event_key ON worker_event (incarnation, pool, slot);
CREATE INDEX worker_event_at ON worker_event (at);

-- session: which worker holds a session's state, fenced by its epoch.
CREATE TABLE session (
    pool           TEXT    NOT NULL,
    session        TEXT    NOT NULL,
    epoch          INTEGER NOT NULL,
    worker_inc     BLOB,                              -- NULL: unbound
    worker_pool    TEXT,
    worker_slot    INTEGER NOT NULL,
    finished_epoch INTEGER NOT NULL,
    bound_at       INTEGER NOT NULL,
    touched_at     INTEGER NOT NULL,
    snapshot_epoch INTEGER NOT NULL,
    PRIMARY KEY (pool, session)
) WITHOUT ROWID;

-- session_snapshot: the kept state of sessions whose workers can snapshot.
CREATE TABLE session_snapshot (
    pool    TEXT    NOT NULL,
    session TEXT    NOT NULL,
    epoch   INTEGER NOT NULL,
    state   BLOB    NOT NULL,
    PRIMARY KEY (pool, session)
);

-- dead_letter: the forensic record of messages that came back or could not be read.
CREATE TABLE dead_letter (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    execution  BLOB,
    attempt    INTEGER NOT NULL,
    action     TEXT    NOT NULL,
    worker     TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    died_at    INTEGER NOT NULL,
    headers    BLOB,                                  -- JSON
    body       BLOB,
    resolution TEXT    NOT NULL
);
CREATE INDEX dead_letter_at ON dead_letter (at);

-- action: what the nodes served, by version, as JSON of messages.Action.
CREATE TABLE action (
    ref         TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    pool        TEXT    NOT NULL,
    timeout     INTEGER NOT NULL,                     -- microseconds; 0: the configured default
    max_retries INTEGER NOT NULL,
    definition  BLOB    NOT NULL,
    saved_at    INTEGER NOT NULL,
    PRIMARY KEY (ref, version)
) WITHOUT ROWID;
