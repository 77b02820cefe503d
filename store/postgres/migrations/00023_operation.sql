-- An operation is what an operator wants done to many executions. The row says how far it is and which node works on it, so that another
-- one goes on when that node dies. Nodes of the version before do not work on any.

CREATE TABLE operation (
    id          uuid        PRIMARY KEY,
    kind        text        NOT NULL,
    filter      json,
    ids         bytea,
    seq_max     bigint      NOT NULL,
    count       bigint      NOT NULL,
    exact       boolean     NOT NULL,
    by          text        NOT NULL,
    reason      text        NOT NULL,
    rate        integer     NOT NULL,
    state       text        NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    started_at  timestamptz,
    ended_at    timestamptz,
    done        bigint      NOT NULL,
    skipped     bigint      NOT NULL,
    failed      bigint      NOT NULL,
    skips       json,
    failures    json,
    problem     text        NOT NULL,
    cursor      bigint      NOT NULL,
    pending     bytea,
    incarnation uuid,
    epoch       bigint      NOT NULL
);
COMMENT ON TABLE operation IS 'Operations on many executions: what an operator wanted, how far it is, and which node works on it. Kept for retention.journal, and at most 1,000 that have ended.';
COMMENT ON COLUMN operation.id IS 'The id, a UUIDv7.';
COMMENT ON COLUMN operation.kind IS 'retry or cancel.';
COMMENT ON COLUMN operation.filter IS 'Which executions, as the parameters of GET /api/v1/executions; NULL: those of ids.';
COMMENT ON COLUMN operation.ids IS 'The ids of the executions, 16 bytes each; NULL: those of filter.';
COMMENT ON COLUMN operation.seq_max IS 'The newest execution of the preview; later ones are left alone.';
COMMENT ON COLUMN operation.count IS 'How many executions the preview found to act on.';
COMMENT ON COLUMN operation.exact IS 'The preview counted all of them; false: there are more.';
COMMENT ON COLUMN operation.by IS 'Who requested it: a token''s name, or local on a node without tokens.';
COMMENT ON COLUMN operation.reason IS 'Why.';
COMMENT ON COLUMN operation.rate IS 'How many executions a second it may change.';
COMMENT ON COLUMN operation.state IS 'previewed, running, stopping, stopped, done or failed.';
COMMENT ON COLUMN operation.created_at IS 'When it was previewed.';
COMMENT ON COLUMN operation.expires_at IS 'When the preview ends, unless it is started.';
COMMENT ON COLUMN operation.started_at IS 'When it was confirmed; NULL: it is a preview.';
COMMENT ON COLUMN operation.ended_at IS 'When it ended; NULL: it has not.';
COMMENT ON COLUMN operation.done IS 'Executions that it has changed.';
COMMENT ON COLUMN operation.skipped IS 'Executions that it left as they were.';
COMMENT ON COLUMN operation.failed IS 'Executions that it could not change.';
COMMENT ON COLUMN operation.skips IS 'Of skipped, how many for which reason.';
COMMENT ON COLUMN operation.failures IS 'The first 100 of failed, with the errors.';
COMMENT ON COLUMN operation.problem IS 'Why it could not go on; empty: nothing.';
COMMENT ON COLUMN operation.cursor IS 'The last seq that was looked at, or how many of ids.';
COMMENT ON COLUMN operation.pending IS 'The executions of the step under way, 16 bytes each.';
COMMENT ON COLUMN operation.incarnation IS 'The boot of the node that works on it; NULL: none yet.';
COMMENT ON COLUMN operation.epoch IS 'How often a node has taken it.';
COMMENT ON INDEX operation_pkey IS 'One row an operation.';
CREATE INDEX operation_at ON operation (created_at, id);
COMMENT ON INDEX operation_at IS 'Operations by time, and old ones.';
CREATE INDEX operation_open ON operation (state, created_at) WHERE state IN ('running', 'stopping');
COMMENT ON INDEX operation_open IS 'Those that have not ended.';
