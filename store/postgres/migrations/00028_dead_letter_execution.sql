-- What is still known of an execution that is deleted: its dead letters.

CREATE INDEX dead_letter_execution ON dead_letter (execution, id) WHERE execution IS NOT NULL;
COMMENT ON INDEX dead_letter_execution IS 'The dead letters of an execution.';
