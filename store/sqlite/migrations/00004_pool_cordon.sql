-- +goose Up

-- pool_cordon: the pools that an operator wants no new work on. It outlives the nodes.
CREATE TABLE pool_cordon (
    pool TEXT PRIMARY KEY
) WITHOUT ROWID, STRICT;
