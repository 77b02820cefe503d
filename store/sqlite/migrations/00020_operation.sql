-- +goose Up

-- operation: what an operator wanted done to many executions, how far it is, and which node works on it.
CREATE TABLE operation (
    id          BLOB    PRIMARY KEY,
    kind        TEXT    NOT NULL,                     -- retry, cancel
    filter      BLOB,                                 -- JSON: which executions; NULL: those of ids
    ids         BLOB,                                 -- 16 bytes each
    seq_max     INTEGER NOT NULL,                     -- later executions are left alone
    count       INTEGER NOT NULL,                     -- that the preview found to act on
    exact       INTEGER NOT NULL,
    by          TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    rate        INTEGER NOT NULL,                     -- executions a second
    state       TEXT    NOT NULL,                     -- previewed, running, stopping, stopped, done, failed
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,                     -- of a preview
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER NOT NULL,
    done        INTEGER NOT NULL,
    skipped     INTEGER NOT NULL,
    failed      INTEGER NOT NULL,
    skips       BLOB,                                 -- JSON: skipped by why
    failures    BLOB,                                 -- JSON: the first ones
    problem     TEXT    NOT NULL,
    cursor      INTEGER NOT NULL,                     -- the last seq that was looked at, or how many of ids
    pending     BLOB,                                 -- 16 bytes each: being worked on
    incarnation BLOB,                                 -- who works on it; NULL: nobody
    epoch       INTEGER NOT NULL                      -- how often it was taken
) WITHOUT ROWID, STRICT;
CREATE INDEX operation_at ON operation (created_at, id);
CREATE INDEX operation_open ON operation (state, created_at) WHERE state IN ('running', 'stopping');
