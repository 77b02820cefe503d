-- +goose Up

-- webhook: who is told of an outcome by HTTP, one row for each execution with the webhook flag (16 of request.flags). Stored with the
-- submission, and made due by the transaction of the outcome. It is deleted with its execution.
CREATE TABLE webhook (
    seq         INTEGER PRIMARY KEY,                  -- the execution's
    url         TEXT    NOT NULL,
    destination TEXT    NOT NULL,                     -- host and port of the address, by which calls are bounded
    secret      TEXT,                                 -- the name of the secret that signs; the secret is in the configuration
    outcomes    INTEGER NOT NULL,                     -- the statuses that are told, as bits by their numbers; 0: all outcomes
    state       INTEGER NOT NULL,                     -- 1 waits for the end, 2 due, 3 told, 4 given up, 5 passed
    tries       INTEGER NOT NULL DEFAULT 0,
    since       INTEGER NOT NULL DEFAULT 0,           -- when it became due
    next_at     INTEGER NOT NULL DEFAULT 0,           -- when it is called next; whoever takes it up moves this ahead
    claim       INTEGER NOT NULL DEFAULT 0,           -- grows each time that it is taken up
    code        INTEGER NOT NULL DEFAULT 0,           -- HTTP status of the last answer; 0: there was none
    error       TEXT,                                 -- why the last call failed
    ended_at    INTEGER NOT NULL DEFAULT 0            -- when it was told or given up
);
CREATE INDEX webhook_due ON webhook (destination, next_at) WHERE state = 2;
CREATE INDEX webhook_open ON webhook (state, since, seq) WHERE state IN (2, 4);
