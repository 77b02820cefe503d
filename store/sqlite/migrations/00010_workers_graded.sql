-- +goose Up

-- workers: those of live nodes, graded with the age of their heartbeat. healthy_workers: of them those that may be given work.
DROP VIEW healthy_workers;
CREATE VIEW workers AS
SELECT w.id, w.pool, w.slot, hex(w.incarnation) AS incarnation, n.name AS node, w.generation, w.state, w.health,
       CASE WHEN w.beat_at > 0 AND w.beat_at + 3 * w.beat_every >= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
            THEN coalesce(CASE WHEN json_valid(w.capabilities) THEN w.capabilities ->> '$.health.status' END, w.health)
            ELSE 'unhealthy' END AS grade,
       w.beat_at, w.beat_every,
       w.beat_at = 0 OR w.beat_at + 3 * w.beat_every < CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS stale,
       w.active = 1 AND w.cordoned = 0 AND n.state = 'active' AND n.cordoned = 0
           AND NOT EXISTS (SELECT 1 FROM pool_cordon c WHERE c.pool = w.pool) AS active
FROM worker w JOIN node n ON n.incarnation = w.incarnation
WHERE n.state <> 'dead';
CREATE VIEW healthy_workers AS
SELECT id, pool, slot, incarnation, generation, state, health, grade, beat_at
FROM workers WHERE active AND grade IN ('healthy', 'degraded');
