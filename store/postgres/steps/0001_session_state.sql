-- A session's stored state may end each program that it is given back to. The tries are counted, over all nodes, and after three in a row the
-- state is set aside. Nodes of the release before give it back without counting.

CREATE TABLE session_try (
    pool     text        NOT NULL,
    session  text        NOT NULL,
    epoch    bigint      NOT NULL,
    runs     bigint      NOT NULL,
    tries    integer     NOT NULL,
    tried_at timestamptz NOT NULL,
    tried_on text        NOT NULL,
    tried_by text        NOT NULL,
    PRIMARY KEY (pool, session)
);
COMMENT ON TABLE session_try IS 'Stored states of sessions that are being given back to a worker, or whose worker ended before it had answered.';
COMMENT ON COLUMN session_try.pool IS 'The session''s pool.';
COMMENT ON COLUMN session_try.session IS 'The session''s name.';
COMMENT ON COLUMN session_try.epoch IS 'The epoch of the stored state.';
COMMENT ON COLUMN session_try.runs IS 'The finished runs that the state includes.';
COMMENT ON COLUMN session_try.tries IS 'How many times in a row it was given back without an answer.';
COMMENT ON COLUMN session_try.tried_at IS 'When it was tried last.';
COMMENT ON COLUMN session_try.tried_on IS 'The worker that it was given to last.';
COMMENT ON COLUMN session_try.tried_by IS 'The execution and attempt for which it was tried last.';
COMMENT ON INDEX session_try_pkey IS 'One row a session.';

CREATE TABLE session_aside (
    pool          text        NOT NULL,
    session       text        NOT NULL,
    epoch         bigint      NOT NULL,
    runs          bigint      NOT NULL,
    session_epoch bigint      NOT NULL,
    tries         integer     NOT NULL,
    worker        text        NOT NULL,
    at            timestamptz NOT NULL,
    state         bytea       NOT NULL,
    PRIMARY KEY (pool, session)
);
COMMENT ON TABLE session_aside IS 'States that were set aside, because each worker that they were given back to ended.';
COMMENT ON COLUMN session_aside.pool IS 'The session''s pool.';
COMMENT ON COLUMN session_aside.session IS 'The session''s name.';
COMMENT ON COLUMN session_aside.epoch IS 'The epoch of the state.';
COMMENT ON COLUMN session_aside.runs IS 'The finished runs that the state includes.';
COMMENT ON COLUMN session_aside.session_epoch IS 'The session''s epoch in which it was set aside.';
COMMENT ON COLUMN session_aside.tries IS 'How many workers it ended.';
COMMENT ON COLUMN session_aside.worker IS 'The last of them.';
COMMENT ON COLUMN session_aside.at IS 'When it was set aside.';
COMMENT ON COLUMN session_aside.state IS 'The state.';
COMMENT ON INDEX session_aside_pkey IS 'One row a session.';
