-- +goose Up

-- worker_event: what befell workers, which few of their transitions are, by time. The condition is that of store.WorkerTroubleSQL.
CREATE INDEX worker_event_trouble ON worker_event (at, incarnation, n) WHERE (after = 'degraded' OR reason IN ('health_restored', 'health_check_failed',
 'max_retries_exceeded', 'terminate', 'error', 'timeout') OR reason = 'init_complete' AND metadata IS NOT NULL);
