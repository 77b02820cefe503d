-- Purge counts what it deletes by when it was requested, so that a ledger of executions adds up. Nodes of the version before delete without
-- counting: what was requested before this step may have been deleted so.

CREATE TABLE purged (
    minute timestamptz NOT NULL PRIMARY KEY,
    n      bigint      NOT NULL,
    edge   bigint      NOT NULL,
    tail   bigint      NOT NULL
);
COMMENT ON TABLE purged IS 'How many executions retention has deleted, by the minute in which they were requested. Kept for retention.counts.';
COMMENT ON COLUMN purged.minute IS 'When the minute begins.';
COMMENT ON COLUMN purged.n IS 'How many.';
COMMENT ON COLUMN purged.edge IS 'Of them, those that were requested in the first second of the minute.';
COMMENT ON COLUMN purged.tail IS 'Of them, those that were requested in the last three seconds of the minute.';
COMMENT ON INDEX purged_pkey IS 'One row a minute; rows by time, and old ones.';

CREATE TABLE purged_from (
    at timestamptz
);
COMMENT ON TABLE purged_from IS 'One row: from when on purged is complete.';
COMMENT ON COLUMN purged_from.at IS 'What was requested before may have been deleted without being counted; NULL: all is counted.';

INSERT INTO purged_from SELECT CASE WHEN EXISTS (SELECT FROM request) OR EXISTS (SELECT FROM rollup) OR EXISTS (SELECT FROM rollup_hour) THEN now() END;
