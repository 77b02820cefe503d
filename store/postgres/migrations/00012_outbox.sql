-- The outbox is append-only: the statement that gives outcomes inserts one row with the ids of those that have a notice, and
-- no statement changes it. One node at a time tells them (outbox_teller), in the order of the transactions' numbers, and
-- deletes the rows that it has told. It reads what its last snapshot did not see, so that a transaction that commits late is
-- told late and is never passed over, and a long transaction of another program delays nothing.
--
-- Nodes of the version before go on inserting into the table notice. A trigger puts their notices into outbox, where a node
-- of this version tells them; their own bridge finds notice empty. So while no node of this version runs, as between
-- `troupe migrate` and the first start, notices wait. What was in notice is moved here; what an older node was publishing in
-- that moment may be told twice.

CREATE TABLE outbox (
    xid xid8        NOT NULL DEFAULT pg_current_xact_id(),
    n   bigint      GENERATED ALWAYS AS IDENTITY,
    at  timestamptz NOT NULL DEFAULT now(),
    ids uuid[]      NOT NULL,
    PRIMARY KEY (xid, n)
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE outbox IS 'The outbox: outcomes whose notices were not yet sent to the executions exchange, one row for the outcomes of one statement. Rows are inserted and deleted, never changed.';
COMMENT ON COLUMN outbox.xid IS 'The transaction that wrote the outcomes.';
COMMENT ON COLUMN outbox.n IS 'The order within the transaction.';
COMMENT ON COLUMN outbox.at IS 'When the executions ended.';
COMMENT ON COLUMN outbox.ids IS 'The executions'' ids.';
COMMENT ON SEQUENCE outbox_n_seq IS 'The numbers of outbox.n.';
COMMENT ON INDEX outbox_pkey IS 'The order in which notices are sent.';

CREATE TABLE outbox_teller (
    one         boolean     PRIMARY KEY DEFAULT true CHECK (one),
    incarnation uuid,
    epoch       bigint      NOT NULL DEFAULT 0,
    until       timestamptz NOT NULL DEFAULT '-infinity',
    told        pg_snapshot NOT NULL DEFAULT '1:1:',
    telling     pg_snapshot,
    at_xid      xid8        NOT NULL DEFAULT '0',
    at_n        bigint      NOT NULL DEFAULT 0,
    at_id       integer     NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE outbox_teller IS 'At most one row: the node that sends the notices of the outbox, and its position.';
COMMENT ON COLUMN outbox_teller.one IS 'There is one row.';
COMMENT ON COLUMN outbox_teller.incarnation IS 'The boot of the node that sends notices; NULL: none.';
COMMENT ON COLUMN outbox_teller.epoch IS 'Grows each time that a node takes the outbox, so that the writes of an earlier node have no effect.';
COMMENT ON COLUMN outbox_teller.until IS 'The end of the lease; then, or when the node is declared dead, another node takes it.';
COMMENT ON COLUMN outbox_teller.told IS 'The notices of all rows that this snapshot sees are sent, and the rows deleted.';
COMMENT ON COLUMN outbox_teller.telling IS 'The snapshot whose rows are being sent; NULL: the next one is taken when it is read.';
COMMENT ON COLUMN outbox_teller.at_xid IS 'The transaction of the next row of the snapshot that is being sent.';
COMMENT ON COLUMN outbox_teller.at_n IS 'The number of the next row.';
COMMENT ON COLUMN outbox_teller.at_id IS 'How many ids of that row were sent.';
COMMENT ON INDEX outbox_teller_pkey IS 'One row.';

-- It runs as its owner: where another user than the nodes' migrates, older nodes have no right to outbox until it is granted.
CREATE FUNCTION notice_to_outbox() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO outbox (at, ids) VALUES (NEW.at, ARRAY[NEW.id]);
    RETURN NULL;
END $$;
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION notice_to_outbox() SET search_path = %I, pg_temp', current_schema());
END $$;
COMMENT ON FUNCTION notice_to_outbox() IS 'Puts the notices of nodes of an older version into outbox.';

-- From here on no node writes to notice until this transaction ends.
LOCK TABLE notice IN ACCESS EXCLUSIVE MODE;
INSERT INTO outbox (at, ids)
SELECT min(at), array_agg(id ORDER BY n) FROM (SELECT *, (row_number() OVER (ORDER BY n) - 1) / 100 AS part FROM notice) k GROUP BY part ORDER BY part;
TRUNCATE notice;
CREATE TRIGGER notice_to_outbox BEFORE INSERT ON notice FOR EACH ROW EXECUTE FUNCTION notice_to_outbox();
COMMENT ON TRIGGER notice_to_outbox ON notice IS 'Puts the notices of nodes of an older version into outbox.';
COMMENT ON TABLE notice IS 'The outbox of older versions, always empty. Rows that their nodes insert go to the table outbox.';
