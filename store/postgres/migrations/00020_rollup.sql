-- The rollup has what each node counted in each minute, so that no question about rates or times counts executions. A row has all that its
-- node counted of the minute, so that a repeated write has no effect. Nodes of the version before do not write it.

CREATE TABLE rollup (
    minute      timestamptz NOT NULL,
    incarnation uuid        NOT NULL,
    pool        text        NOT NULL,
    action      text        NOT NULL,
    version     text        NOT NULL,
    status      smallint    NOT NULL,
    code        text        NOT NULL,
    n           bigint      NOT NULL,
    wait        bytea,
    run         bytea,
    PRIMARY KEY (minute, incarnation, pool, action, version, status, code)
) WITH (fillfactor = 70);
COMMENT ON TABLE rollup IS 'How many executions were submitted and ended in each minute, and how long they waited and ran, as each node counted. Kept for retention.journal.';
COMMENT ON COLUMN rollup.minute IS 'When the minute begins.';
COMMENT ON COLUMN rollup.incarnation IS 'The boot of the node that counted.';
COMMENT ON COLUMN rollup.pool IS 'The pool.';
COMMENT ON COLUMN rollup.action IS 'The action, or (other) for what has no row of its own.';
COMMENT ON COLUMN rollup.version IS 'The version of the action.';
COMMENT ON COLUMN rollup.status IS 'How they ended, as in execution_status; 0: they were submitted.';
COMMENT ON COLUMN rollup.code IS 'The code of their error; empty: none.';
COMMENT ON COLUMN rollup.n IS 'How many.';
COMMENT ON COLUMN rollup.wait IS 'Histogram of the time from when they were due to their start: for each bucket that is not empty, the distance from the one before and the count, as varints.';
COMMENT ON COLUMN rollup.run IS 'Histogram of the time from their start to their end.';
COMMENT ON INDEX rollup_pkey IS 'One row a minute, node and key; rows by time, and old ones.';
