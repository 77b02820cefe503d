-- For the queries of docs/quick-reference.md. Rows of request lie in order of time, so an index of a few pages leads to the
-- last day of them, and costs an insert next to nothing. Nodes of the version before work on.
-- Each index is built by one read of its table, which no row can be inserted into meanwhile. An operator may build them
-- before the upgrade with CREATE INDEX CONCURRENTLY (docs/operations.md); then nothing is left to do here.
CREATE INDEX IF NOT EXISTS request_requested_at ON request USING brin (requested_at) WITH (pages_per_range = 32, autosummarize = on);
COMMENT ON INDEX request_requested_at IS 'Recent requests, for queries by people.';

CREATE INDEX IF NOT EXISTS submission_refused ON submission (at) WHERE state = 'refused';
COMMENT ON INDEX submission_refused IS 'The submissions that made no execution; for people.';
