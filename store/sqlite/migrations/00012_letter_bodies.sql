-- +goose Up

-- dead_letter keeps 64 KiB of a body at most: body_size is what it had, in bytes, and body_sha256 the hash of one that was cut.
ALTER TABLE dead_letter ADD COLUMN body_size INTEGER;
ALTER TABLE dead_letter ADD COLUMN body_sha256 TEXT;
