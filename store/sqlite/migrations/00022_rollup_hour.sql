-- +goose Up

-- rollup_hour: the counts of rollup by the hour, of all nodes together.
CREATE TABLE rollup_hour (
    hour    INTEGER NOT NULL,                         -- when it begins
    pool    TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    version TEXT    NOT NULL,
    status  INTEGER NOT NULL,                         -- how they ended; 0: submissions
    code    TEXT    NOT NULL,                         -- of their error
    n       INTEGER NOT NULL,
    wait    BLOB,                                     -- histograms
    run     BLOB,
    PRIMARY KEY (hour, pool, action, version, status, code)
) WITHOUT ROWID;

-- rollup_fold: which hours have counts, and which of them rollup_hour has.
CREATE TABLE rollup_fold (
    hour    INTEGER NOT NULL PRIMARY KEY,             -- when it begins
    version INTEGER NOT NULL DEFAULT 0,               -- grows with each minute of it that is stored more than an hour late
    folded  INTEGER NOT NULL DEFAULT -1               -- the version whose minutes rollup_hour has; -1: none
);
CREATE INDEX rollup_fold_open ON rollup_fold (hour) WHERE folded <> version;

INSERT INTO rollup_fold (hour) SELECT DISTINCT minute - minute % 3600000000 FROM rollup;
