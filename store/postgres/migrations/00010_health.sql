-- What workers report becomes jsonb, and a view grades every worker as the nodes do: with the age of its heartbeat. A node of
-- the version before cannot write its heartbeats from here on.

DROP VIEW healthy_workers;
ALTER TABLE worker ALTER COLUMN capabilities TYPE jsonb USING capabilities::jsonb;

CREATE VIEW workers AS
SELECT w.id, w.pool, w.slot, w.incarnation, n.name AS node, w.generation, w.state, w.health,
       CASE WHEN w.last_heartbeat + 3 * w.heartbeat_interval >= clock_timestamp() THEN coalesce(w.capabilities #>> '{health,status}', w.health)
            ELSE 'unhealthy' END AS grade,
       w.last_heartbeat, clock_timestamp() - w.last_heartbeat AS heartbeat_age, w.heartbeat_interval,
       coalesce(w.last_heartbeat + 3 * w.heartbeat_interval < clock_timestamp(), true) AS stale,
       w.active AND NOT w.cordoned AND n.state = 'active' AND NOT n.cordoned
           AND NOT EXISTS (SELECT FROM pool_cordon c WHERE c.pool = w.pool) AS active
FROM worker w JOIN node n ON n.incarnation = w.incarnation
WHERE n.state <> 'dead';

CREATE VIEW healthy_workers AS
SELECT id, pool, slot, incarnation, node, generation, state, health, grade, last_heartbeat
FROM workers WHERE active AND grade IN ('healthy', 'degraded');

COMMENT ON VIEW workers IS 'The workers of live nodes. The grade includes the age of the heartbeat: it is stale after three of the worker''s own intervals, whatever the nodes are configured to.';
COMMENT ON COLUMN workers.id IS 'Its name: node/pool/slot.';
COMMENT ON COLUMN workers.pool IS 'Its pool.';
COMMENT ON COLUMN workers.slot IS 'Its slot in the pool''s share of the node.';
COMMENT ON COLUMN workers.incarnation IS 'Its node''s boot.';
COMMENT ON COLUMN workers.node IS 'The configured name of its node.';
COMMENT ON COLUMN workers.generation IS 'How often the slot was started.';
COMMENT ON COLUMN workers.state IS 'The state of its lifecycle at the last report of its node.';
COMMENT ON COLUMN workers.health IS 'The result of its last probes: healthy, unhealthy, or unknown before the first.';
COMMENT ON COLUMN workers.grade IS 'unhealthy while its heartbeat is stale. Otherwise the grade that its node reports. Without a grade, its health.';
COMMENT ON COLUMN workers.last_heartbeat IS 'The time of its last heartbeat; NULL: never.';
COMMENT ON COLUMN workers.heartbeat_age IS 'The age of its last heartbeat; negative: the heartbeat is ahead of the clock.';
COMMENT ON COLUMN workers.heartbeat_interval IS 'How often its node writes a heartbeat.';
COMMENT ON COLUMN workers.stale IS 'Its last heartbeat is more than three intervals old, or there is none.';
COMMENT ON COLUMN workers.active IS 'It may be given work: neither it nor its node or pool is cordoned, and its node is not draining.';

COMMENT ON VIEW healthy_workers IS 'Workers that may get work. They are active on an active node, and neither worker, node nor pool is cordoned. Their heartbeat is at most three of their own intervals old, whatever the nodes are configured to. Their grade is healthy or degraded.';
COMMENT ON COLUMN healthy_workers.id IS 'Its name: node/pool/slot.';
COMMENT ON COLUMN healthy_workers.pool IS 'Its pool.';
COMMENT ON COLUMN healthy_workers.slot IS 'Its slot in the pool''s share of the node.';
COMMENT ON COLUMN healthy_workers.incarnation IS 'Its node''s boot.';
COMMENT ON COLUMN healthy_workers.node IS 'The configured name of its node.';
COMMENT ON COLUMN healthy_workers.generation IS 'How often the slot was started.';
COMMENT ON COLUMN healthy_workers.state IS 'The state of its lifecycle. Workers of every state are shown.';
COMMENT ON COLUMN healthy_workers.health IS 'The result of its last probes: healthy, unhealthy, or unknown before the first.';
COMMENT ON COLUMN healthy_workers.grade IS 'The grade that its node reports: healthy or degraded, or unknown before the first report. Without a grade, its health.';
COMMENT ON COLUMN healthy_workers.last_heartbeat IS 'The time of its last heartbeat.';
