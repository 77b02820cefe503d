-- The counts of an hour are added up once its minutes change no more, so that a long time is read in a few rows and can be kept for longer. A
-- version says which minutes were added: it grows when a minute is stored late. Nodes of the version before neither add up hours nor note
-- the hours that they count in; those that are stored already are noted here.

CREATE TABLE rollup_hour (
    hour    timestamptz NOT NULL,
    pool    text        NOT NULL,
    action  text        NOT NULL,
    version text        NOT NULL,
    status  smallint    NOT NULL,
    code    text        NOT NULL,
    n       bigint      NOT NULL,
    wait    bytea,
    run     bytea,
    PRIMARY KEY (hour, pool, action, version, status, code)
);
COMMENT ON TABLE rollup_hour IS 'The counts of rollup by the hour, of all nodes together. Kept for retention.counts.';
COMMENT ON COLUMN rollup_hour.hour IS 'When the hour begins.';
COMMENT ON COLUMN rollup_hour.pool IS 'The pool.';
COMMENT ON COLUMN rollup_hour.action IS 'The action, or (other) for what has no row of its own.';
COMMENT ON COLUMN rollup_hour.version IS 'The version of the action.';
COMMENT ON COLUMN rollup_hour.status IS 'How they ended, as in execution_status; 0: they were submitted.';
COMMENT ON COLUMN rollup_hour.code IS 'The code of their error; empty: none.';
COMMENT ON COLUMN rollup_hour.n IS 'How many.';
COMMENT ON COLUMN rollup_hour.wait IS 'Histogram of the time from when they were due to their start, as in rollup.';
COMMENT ON COLUMN rollup_hour.run IS 'Histogram of the time from their start to their end.';
COMMENT ON INDEX rollup_hour_pkey IS 'One row an hour and key; rows by time, and old ones.';

CREATE TABLE rollup_fold (
    hour    timestamptz NOT NULL PRIMARY KEY,
    version bigint      NOT NULL DEFAULT 0,
    folded  bigint      NOT NULL DEFAULT -1
);
COMMENT ON TABLE rollup_fold IS 'Which hours have counts, and which of them rollup_hour has. Kept for retention.counts.';
COMMENT ON COLUMN rollup_fold.hour IS 'When the hour begins.';
COMMENT ON COLUMN rollup_fold.version IS 'Grows with each minute of it that is stored more than an hour late.';
COMMENT ON COLUMN rollup_fold.folded IS 'The version whose minutes rollup_hour has; -1: none.';
COMMENT ON INDEX rollup_fold_pkey IS 'One row an hour; old ones.';
CREATE INDEX rollup_fold_open ON rollup_fold (hour) WHERE folded <> version;
COMMENT ON INDEX rollup_fold_open IS 'The hours that are to be added up.';

INSERT INTO rollup_fold (hour) SELECT DISTINCT date_trunc('hour', minute, 'UTC') FROM rollup;
