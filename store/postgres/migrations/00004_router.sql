-- Of all nodes that serve a pool one routes. Nodes of the version before know nothing of this table, route beside the one
-- that leads, and are not hindered by it: each placement is a compare-and-set of its own.

CREATE TABLE router (
    pool        text        PRIMARY KEY,
    incarnation uuid,
    epoch       bigint      NOT NULL CHECK (epoch > 0),
    since       timestamptz NOT NULL
);
COMMENT ON TABLE router IS 'Which node routes for each pool.';
COMMENT ON COLUMN router.pool IS 'The pool.';
COMMENT ON COLUMN router.incarnation IS 'The boot of a node that places the pool''s executions, while its lease is live; NULL: it was given up.';
COMMENT ON COLUMN router.epoch IS 'The number of the taking, from 1; grows with each.';
COMMENT ON COLUMN router.since IS 'When it was taken, or given up.';
COMMENT ON INDEX router_pkey IS 'One row a pool.';

-- A loopback address reaches whoever shares the network with its node. Nodes of the version before leave it empty.
ALTER TABLE node ADD COLUMN peer_scope text NOT NULL DEFAULT '';
COMMENT ON COLUMN node.peer_scope IS 'Where peer_address means this node: the boot and the network namespace of a loopback address; empty: everywhere.';
