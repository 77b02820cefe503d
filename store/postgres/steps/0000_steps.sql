-- The steps that only add to the schema are recorded by name, beside schema_version. Its number stays, so that a node of a release before goes on
-- and starts. A step that takes something away is made a release later: it raises schema_oldest, and then older programs are refused.

CREATE TABLE schema_step (
    name       text        NOT NULL PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE schema_step IS 'The steps that only add to the schema, by name. A program that does not know one of them works all the same.';
COMMENT ON COLUMN schema_step.name IS 'The step''s name.';
COMMENT ON COLUMN schema_step.applied_at IS 'When it was made.';
COMMENT ON INDEX schema_step_pkey IS 'One row a step.';

CREATE TABLE schema_oldest (
    generation integer NOT NULL,
    release    text    NOT NULL
);
COMMENT ON TABLE schema_oldest IS 'One row: the oldest program that may use the schema. A step that takes something away raises it.';
COMMENT ON COLUMN schema_oldest.generation IS 'The oldest generation of the program; 0: any.';
COMMENT ON COLUMN schema_oldest.release IS 'The first release of that generation.';
INSERT INTO schema_oldest VALUES (0, '');
