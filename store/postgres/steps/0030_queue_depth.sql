-- Under direct dispatch an execution stays requested until a worker claims it, so the rows say nothing of a worker's queue. Each node reports
-- the depth of its workers' queues with their heartbeats, under both dispatches.

CREATE OR REPLACE FUNCTION get_worker_queue_depth(worker text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum((w.capabilities #>> '{health,queue_depth}')::bigint), 0)::bigint
    FROM worker w JOIN node n ON n.incarnation = w.incarnation WHERE w.id = worker AND n.state <> 'dead'
$$;
COMMENT ON FUNCTION get_worker_queue_depth(text) IS 'How many executions are placed on the worker and not yet claimed, as its node reported with its last heartbeat.';
