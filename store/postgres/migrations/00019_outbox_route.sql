-- A row of the outbox says what the routing key of its notices is made of. Where the exchange has no queue for that key, the
-- node that sends the notices does not read the executions. Rows of nodes of the version before have NULL and are read.

ALTER TABLE outbox ADD COLUMN status smallint, ADD COLUMN action text;
COMMENT ON TABLE outbox IS 'The outbox: outcomes whose notices were not yet sent to the executions exchange, one row for the outcomes of one statement that have the same status and action. Rows are inserted and deleted, never changed.';
COMMENT ON COLUMN outbox.status IS 'The status of all its executions (execution_status); NULL: they differ, one is a retry or has a trace, or it is not known.';
COMMENT ON COLUMN outbox.action IS 'The action of all its executions; NULL: where status is.';
