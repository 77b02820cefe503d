-- +goose Up

-- purged: how many executions retention has deleted, by the minute in which they were requested.
CREATE TABLE purged (
    minute INTEGER NOT NULL PRIMARY KEY,              -- when it begins
    n      INTEGER NOT NULL,
    edge   INTEGER NOT NULL,                          -- of them, requested in the first second of the minute
    tail   INTEGER NOT NULL                           -- of them, requested in the last three seconds of the minute
);

-- What was requested before purged_from may have been deleted without being counted. Without it all is counted.
INSERT INTO meta (name, value) SELECT 'purged_from', CAST(1000000 * unixepoch('subsec') AS INTEGER)
 WHERE EXISTS (SELECT 1 FROM request) OR EXISTS (SELECT 1 FROM rollup) OR EXISTS (SELECT 1 FROM rollup_hour);
