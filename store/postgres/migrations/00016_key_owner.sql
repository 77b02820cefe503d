-- An idempotency key belongs to who made it, so that two tokens may have the same one. A key's owner is key_owner, or where that is
-- NULL who created the execution, up to a colon. So the keys of before have owners, and nodes of the version before go on writing
-- theirs; they find a key whosever it is.
-- The new index is built by one read of its table, which no row can be inserted into meanwhile. An operator may add the column and
-- build the index before the upgrade with CREATE INDEX CONCURRENTLY (docs/operations.md); then nothing is left to do here.

ALTER TABLE request ADD COLUMN IF NOT EXISTS key_owner text;
COMMENT ON COLUMN request.key_owner IS 'The owner of its idempotency key; for a manual retry, who requested it. NULL: created_by, up to a colon.';
CREATE UNIQUE INDEX IF NOT EXISTS request_owned_key ON request (idempotency_key, coalesce(key_owner, split_part(created_by, ':', 1), ''))
 WHERE idempotency_key IS NOT NULL;
COMMENT ON INDEX request_owned_key IS 'One execution an idempotency key of an owner.';
DROP INDEX request_key;
COMMENT ON COLUMN request.idempotency_key IS 'At most one execution of an owner (key_owner) has it.';
COMMENT ON COLUMN executions.idempotency_key IS 'At most one execution of an owner has it.';
