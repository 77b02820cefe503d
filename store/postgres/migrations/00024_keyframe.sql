-- The keyframe has what each node was every few minutes: its pools, and the states of its workers. With the events of workers and the journal
-- it says what the cluster was at a time. Nodes of the version before do not write it.

CREATE TABLE keyframe (
    incarnation uuid        NOT NULL,
    at          timestamptz NOT NULL,
    frame       bytea       NOT NULL,
    PRIMARY KEY (incarnation, at)
);
ALTER TABLE keyframe ALTER COLUMN frame SET STORAGE EXTERNAL;
COMMENT ON TABLE keyframe IS 'What each node was every few minutes, so that its past can be shown. Kept for retention.journal.';
COMMENT ON COLUMN keyframe.incarnation IS 'The boot of the node.';
COMMENT ON COLUMN keyframe.at IS 'The moment, by the server''s clock as the node estimates it.';
COMMENT ON COLUMN keyframe.frame IS 'JSON, compressed with gzip: the node, its pools, and of each pool the states, grades and generations of its workers by runs.';
COMMENT ON INDEX keyframe_pkey IS 'One row a node and moment.';
CREATE INDEX keyframe_at ON keyframe (at, incarnation);
COMMENT ON INDEX keyframe_at IS 'Those of a time, and old ones.';
