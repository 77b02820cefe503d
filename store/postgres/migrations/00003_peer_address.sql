-- Nodes reach each other at an address of its own. Nodes of the version before leave it empty: nobody dials them.

ALTER TABLE node ADD COLUMN peer_address text NOT NULL DEFAULT '';
COMMENT ON COLUMN node.peer_address IS 'Where its peers reach it, as host:port; empty: nowhere.';
COMMENT ON COLUMN node.address IS 'Where its API is.';
