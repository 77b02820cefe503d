-- +goose Up

-- request.key_owner: whose the idempotency key is, of a retry by hand who asked for it; NULL: who created it, up to a colon.
ALTER TABLE request ADD COLUMN key_owner TEXT;
DROP INDEX request_key;
CREATE UNIQUE INDEX request_key ON request (idempotency_key,
    coalesce(key_owner, substr(created_by, 1, instr(created_by || ':', ':') - 1), '')) WHERE idempotency_key IS NOT NULL;
