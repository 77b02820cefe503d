-- Who is told of outcomes by HTTP. The row of an execution is stored with its submission, and waits. A trigger makes it due in the
-- transaction that gives the outcome, so that every statement which does so, and nodes of the version before, make it due too. The trigger
-- runs only for executions that have a row. Nodes take rows that are due by moving next_at ahead; claim fences those that took them before.

CREATE TABLE webhook (
    id          uuid     PRIMARY KEY,
    url         text     NOT NULL,
    destination text     NOT NULL,
    secret      text,
    outcomes    integer  NOT NULL,
    state       smallint NOT NULL,
    tries       integer  NOT NULL DEFAULT 0,
    since       timestamptz,
    next_at     timestamptz,
    claim       bigint   NOT NULL DEFAULT 0,
    code        integer  NOT NULL DEFAULT 0,
    error       text,
    ended_at    timestamptz
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX webhook_due ON webhook (destination, next_at) WHERE state = 2;
CREATE INDEX webhook_open ON webhook (state, since, id) WHERE state IN (2, 4);
COMMENT ON TABLE webhook IS 'Who is told of an outcome by HTTP: one row for each execution with a webhook. It is deleted with its execution.';
COMMENT ON COLUMN webhook.id IS 'The execution''s id, which is also the id of the call.';
COMMENT ON COLUMN webhook.url IS 'The address that is called.';
COMMENT ON COLUMN webhook.destination IS 'The host and port of the address, by which calls are bounded.';
COMMENT ON COLUMN webhook.secret IS 'The name of the secret that signs the call. The secret itself is in the configuration of the nodes. NULL: the call is not signed.';
COMMENT ON COLUMN webhook.outcomes IS 'The statuses that are told: the sum of 2 to the power of each number in execution_status. 0: all outcomes.';
COMMENT ON COLUMN webhook.state IS '1: the execution has not ended; 2: due; 3: told; 4: given up; 5: passed, because this outcome was not asked for or a retry follows.';
COMMENT ON COLUMN webhook.tries IS 'How often the address was called.';
COMMENT ON COLUMN webhook.since IS 'When it became due.';
COMMENT ON COLUMN webhook.next_at IS 'When it is called next. A node that takes it up moves this ahead, so that another takes it if that node dies.';
COMMENT ON COLUMN webhook.claim IS 'Grows each time that a node takes it up, so that the report of an earlier node has no effect.';
COMMENT ON COLUMN webhook.code IS 'The HTTP status of the last answer; 0: there was none.';
COMMENT ON COLUMN webhook.error IS 'Why the last call failed.';
COMMENT ON COLUMN webhook.ended_at IS 'When it was told or given up.';
COMMENT ON INDEX webhook_pkey IS 'The webhook of an execution.';
COMMENT ON INDEX webhook_due IS 'What is due, by destination.';
COMMENT ON INDEX webhook_open IS 'What is due or was given up, the oldest first.';

ALTER TABLE execution ADD COLUMN webhook boolean;
COMMENT ON COLUMN execution.webhook IS 'Whether the table webhook has a row for it; NULL: no.';

-- It runs as its owner: where another user than the nodes' migrates, older nodes have no right to webhook until it is granted.
CREATE FUNCTION webhook_due() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE webhook SET since = now(), next_at = now(),
        state = CASE WHEN NEW.retried_as IS NULL AND (outcomes = 0 OR outcomes & (1 << NEW.status::integer) <> 0) THEN 2 ELSE 5 END
    WHERE id = NEW.id AND state = 1;
    RETURN NULL;
END $$;
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION webhook_due() SET search_path = %I, pg_temp', current_schema());
END $$;
COMMENT ON FUNCTION webhook_due() IS 'Makes the webhook of an execution due as it ends.';
CREATE TRIGGER webhook_due AFTER UPDATE OF finished_at ON execution FOR EACH ROW
    WHEN (NEW.webhook AND NEW.finished_at IS NOT NULL) EXECUTE FUNCTION webhook_due();
COMMENT ON TRIGGER webhook_due ON execution IS 'Makes webhooks due in the transaction of the outcome.';
