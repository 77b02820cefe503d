-- +goose Up

-- output.record: what the run said when, with its progress, chunks and log lines: JSON, an entry a line. NULL: nothing, or not known.
ALTER TABLE output ADD COLUMN record BLOB;
