-- +goose Up

-- node.peer_proof: version of the proof that it gives its peers; 0: none. One node alone uses this store, so it is for people to see.
ALTER TABLE node ADD COLUMN peer_proof INTEGER NOT NULL DEFAULT 0;
