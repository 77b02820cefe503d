-- Cordons of pools outlive the nodes. Nodes of the version before know nothing of this table and are not hindered by it.

CREATE TABLE pool_cordon (
    pool text        PRIMARY KEY,
    at   timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE pool_cordon IS 'The pools that an operator wants no new work on, on every node.';
COMMENT ON COLUMN pool_cordon.pool IS 'The pool.';
COMMENT ON COLUMN pool_cordon.at IS 'When it was cordoned.';
COMMENT ON INDEX pool_cordon_pkey IS 'One row a pool.';
