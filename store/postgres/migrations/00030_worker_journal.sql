-- What befell workers is read by an index that no other one can stand in for: for the time alone the server chose worker_event_at, and read every
-- transition of the range.

DROP INDEX worker_event_trouble;
CREATE INDEX worker_event_trouble ON worker_event ((at AT TIME ZONE 'UTC'), incarnation, n) WHERE (after = 'degraded' OR reason IN ('health_restored',
 'health_check_failed', 'max_retries_exceeded', 'terminate', 'error', 'timeout') OR reason = 'init_complete' AND metadata IS NOT NULL);
COMMENT ON INDEX worker_event_trouble IS 'What befell workers, by time.';
