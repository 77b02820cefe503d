-- +goose Up

-- session.started_epoch: the epoch of the first run that may have begun with the session's state; 0: none has.
-- session.runs: runs that ended and left their state with their worker. bound_runs: what that was when the present binding
-- was made. snapshot_runs: how many of them the kept snapshot holds.
ALTER TABLE session ADD COLUMN started_epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN runs          INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN bound_runs    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN snapshot_runs INTEGER NOT NULL DEFAULT 0;

-- Of sessions from before, any may have run, and a snapshot of an epoch before the last finished one is behind.
UPDATE session SET started_epoch = 1;
UPDATE session SET runs = 1, bound_runs = 1 WHERE snapshot_epoch < finished_epoch;

-- head: from now on the first turn of each session that is not busy; a strict_fail that is no head has one before it.
DELETE FROM head WHERE EXISTS (SELECT 1 FROM busy b WHERE b.pool = head.pool AND b.session = head.session);
