-- A router that takes over reads the sessions that are bound to workers who live, and a slot that loses its process those that
-- are bound to it: neither looks at the idle ones. Only what binds and unbinds a session moves its entry. Nodes of the version
-- before work on.
CREATE INDEX IF NOT EXISTS session_bound ON session (pool, worker_inc, worker_slot, session) WHERE worker_inc IS NOT NULL;
COMMENT ON INDEX session_bound IS 'Sessions that are bound to a worker, or to any worker of an incarnation.';

-- Of all rows of workers, also those of boots that have ended, the few that may be given work. A heartbeat does not touch it.
CREATE INDEX worker_selectable ON worker (pool) WHERE active AND NOT cordoned;
COMMENT ON INDEX worker_selectable IS 'The workers of a pool that may be given work; healthy_workers.';

COMMENT ON COLUMN execution.turn IS 'While it waits in its session''s line: 1, or 2 for affinity strict_fail; 3 while it is backed off, after it was given back, and keeps its place.';
COMMENT ON COLUMN lane.head IS 'The waiting execution that a router should look at: the first in turn; none while the session is busy, or the first in turn is backed off.';
