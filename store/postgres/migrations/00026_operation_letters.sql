-- Operations may be about dead letters. Nodes of the version before end those as failed, because they do not read their filters.

COMMENT ON TABLE operation IS 'Operations on many executions or dead letters: what an operator wanted, how far it is, and which node works on it. Kept for retention.journal, and at most 1,000 that have ended.';
COMMENT ON COLUMN operation.kind IS 'retry or cancel, of executions; requeue or discard, of dead letters.';
COMMENT ON COLUMN operation.filter IS 'Which ones, as the parameters of GET /api/v1/executions, or below dead_letters those of GET /api/v1/dead-letters; NULL: those of ids.';
COMMENT ON COLUMN operation.ids IS 'The ids of the executions, or the numbers of the dead letters, 16 bytes each; NULL: those of filter.';
COMMENT ON COLUMN operation.seq_max IS 'The newest execution or dead letter of the preview; later ones are left alone.';
COMMENT ON COLUMN operation.count IS 'How many the preview found to act on.';
COMMENT ON COLUMN operation.rate IS 'How many a second it may change.';
COMMENT ON COLUMN operation.done IS 'Executions or dead letters that it has changed.';
COMMENT ON COLUMN operation.skipped IS 'Those that it left as they were.';
COMMENT ON COLUMN operation.failed IS 'Those that it could not change.';
COMMENT ON COLUMN operation.cursor IS 'The last seq or number that was looked at, or how many of ids.';
COMMENT ON COLUMN operation.pending IS 'The executions or dead letters of the step under way, 16 bytes each.';
