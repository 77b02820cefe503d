-- +goose Up

-- healthy_workers: active, with neither the worker nor its node nor its pool cordoned, fresh by their own interval (three
-- beats), healthy or degraded with the grade shown.
DROP VIEW healthy_workers;
CREATE VIEW healthy_workers AS
SELECT w.id, w.pool, w.slot, hex(w.incarnation) AS incarnation, w.generation, w.state, w.health,
       coalesce(CASE WHEN json_valid(w.capabilities) THEN w.capabilities ->> '$.health.status' END, w.health) AS grade, w.beat_at
FROM worker w JOIN node n ON n.incarnation = w.incarnation
WHERE w.active = 1 AND w.cordoned = 0 AND n.state = 'active' AND n.cordoned = 0 AND w.beat_at > 0
  AND NOT EXISTS (SELECT 1 FROM pool_cordon c WHERE c.pool = w.pool)
  AND w.beat_at + 3 * w.beat_every >= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
  AND grade IN ('healthy', 'degraded');
