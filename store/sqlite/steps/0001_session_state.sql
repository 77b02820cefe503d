-- A session's stored state may end each program that it is given back to. The tries are counted, and after three in a row the state is set aside.

-- States that are being given back to a worker, or whose worker ended before it had answered: how many times in a row, when and where last.
CREATE TABLE session_try (
    pool     TEXT    NOT NULL,
    session  TEXT    NOT NULL,
    epoch    INTEGER NOT NULL,
    runs     INTEGER NOT NULL,
    tries    INTEGER NOT NULL,
    tried_at INTEGER NOT NULL,
    tried_on TEXT    NOT NULL,
    tried_by TEXT    NOT NULL,
    PRIMARY KEY (pool, session)
);

-- States that were set aside: in which epoch of the session, after how many workers that they ended, and which was the last.
CREATE TABLE session_aside (
    pool          TEXT    NOT NULL,
    session       TEXT    NOT NULL,
    epoch         INTEGER NOT NULL,
    runs          INTEGER NOT NULL,
    session_epoch INTEGER NOT NULL,
    tries         INTEGER NOT NULL,
    worker        TEXT    NOT NULL,
    at            INTEGER NOT NULL,
    state         BLOB    NOT NULL,
    PRIMARY KEY (pool, session)
);
