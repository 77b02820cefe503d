-- +goose Up

-- rollup: what each node counted in each minute, by key. A row has all that its node counted, so that a repeated write has no effect.
CREATE TABLE rollup (
    minute      INTEGER NOT NULL,                     -- when it begins
    incarnation BLOB    NOT NULL,                     -- the boot of the node that counted
    pool        TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    status      INTEGER NOT NULL,                     -- how they ended; 0: submissions
    code        TEXT    NOT NULL,                     -- of their error
    n           INTEGER NOT NULL,
    wait        BLOB,                                 -- histograms
    run         BLOB,
    PRIMARY KEY (minute, incarnation, pool, action, version, status, code)
) WITHOUT ROWID;
