-- +goose Up

-- notice: the outbox of completion notices, one row for each execution with the notify flag (8 of request.flags) that has
-- ended and whose notice nobody has reported as sent. Written by the transaction of the outcome.
CREATE TABLE notice (
    n    INTEGER PRIMARY KEY,                         -- the order of the outcomes
    seq  INTEGER NOT NULL,                            -- the execution's
    at   INTEGER NOT NULL,                            -- when it ended
    held INTEGER NOT NULL                             -- until then somebody is sending it
);
CREATE UNIQUE INDEX notice_seq ON notice (seq);

-- dead_letter.key: names the death, so that a message that is handled twice leaves one record.
ALTER TABLE dead_letter ADD COLUMN key TEXT;
CREATE UNIQUE INDEX dead_letter_key ON dead_letter (key) WHERE key IS NOT NULL;
