-- A failure that comes after its run is an event of the execution.

COMMENT ON COLUMN execution_event.kind IS 'The change''s name, or stale_write, dead_letter, retry, late_failure.';
