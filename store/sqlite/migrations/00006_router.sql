-- +goose Up

-- router: who leads each pool's routing. One node alone uses this store, so it is that one, or one that has ended.
CREATE TABLE router (
    pool        TEXT PRIMARY KEY,
    incarnation BLOB,                                 -- NULL: it was given up
    epoch       INTEGER NOT NULL,                     -- the number of the taking, from 1
    since       INTEGER NOT NULL                      -- when it was taken, or given up
) WITHOUT ROWID, STRICT;

-- node.peer_scope: where peer_address means this node; empty: everywhere.
ALTER TABLE node ADD COLUMN peer_scope TEXT NOT NULL DEFAULT '';
