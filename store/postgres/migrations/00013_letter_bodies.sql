-- A dead letter keeps 64 KiB of its body at most. What it had is noted; NULL: as much as is kept. Nodes of the version before
-- go on keeping whole bodies, which are cut where they are read.

ALTER TABLE dead_letter ADD COLUMN body_size bigint, ADD COLUMN body_sha256 text;
COMMENT ON COLUMN dead_letter.body IS 'Its body, up to 64 KiB of it.';
COMMENT ON COLUMN dead_letter.body_size IS 'The size of the whole body in bytes; NULL: the size of the stored body.';
COMMENT ON COLUMN dead_letter.body_sha256 IS 'The SHA-256 of a body that was cut, in hex; NULL: it was not.';
