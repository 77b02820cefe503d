-- A node whose process has ended is declared dead before its lease has run out. Nodes of the version before leave locked_since NULL:
-- they are declared dead when their leases have run out.

ALTER TABLE node ADD COLUMN locked_since timestamptz;
COMMENT ON COLUMN node.locked_since IS 'Since when, by its last renewal, one connection of its own has held the lock; NULL: none does, or it is of an older release.';
ALTER TABLE node ADD COLUMN ended text;
COMMENT ON COLUMN node.ended IS 'How it ended: stopped, lease (ran out), refused or replaced (its process ended); NULL: it lives, or an older release declared it dead.';
