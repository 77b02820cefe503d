-- +goose Up

-- node.peer_address: where other nodes would reach this one. One node alone uses this store, so it is for people to see.
ALTER TABLE node ADD COLUMN peer_address TEXT NOT NULL DEFAULT '';
