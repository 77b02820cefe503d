-- +goose Up

-- What is bound to a worker. Only what binds and unbinds a session moves its entry.
CREATE INDEX session_bound ON session (pool, worker_inc, worker_slot, session) WHERE worker_inc IS NOT NULL;

-- turn.fail: 0 strict, 1 strict_fail, 2 either of them while it is backed off, after it was given back, and keeps its place.
