-- +goose Up

-- keyframe: what each node was every few minutes: its pools, and the states of its workers.
CREATE TABLE keyframe (
    incarnation BLOB    NOT NULL,                     -- the boot of the node
    at          INTEGER NOT NULL,                     -- the moment
    frame       BLOB    NOT NULL,                     -- JSON, compressed with gzip
    PRIMARY KEY (incarnation, at)
);
CREATE INDEX keyframe_at ON keyframe (at, incarnation);
