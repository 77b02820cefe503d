-- The output of an execution has a record of what its run said when. Nodes of the version before leave it NULL.

ALTER TABLE output ADD COLUMN record bytea;
COMMENT ON COLUMN output.record IS 'What the run said when, with its progress, chunks and log lines: JSON, an entry a line; NULL: nothing, or not known.';
