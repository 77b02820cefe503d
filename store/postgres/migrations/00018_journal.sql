-- The journal has what changed outside of executions. An entry is named by who wrote it and its number, so that a repeated write has no
-- effect. It is read by time, because what a node kept while the store was away is written late. Nodes of the version before do not
-- write it.

CREATE TABLE journal (
    incarnation uuid        NOT NULL,
    number      bigint      NOT NULL,
    at          timestamptz NOT NULL,
    kind        text        NOT NULL,
    subject     text        NOT NULL,
    what        text        NOT NULL,
    reason      text,
    caller      text,
    detail      json,
    PRIMARY KEY (incarnation, number)
);
COMMENT ON TABLE journal IS 'What changed outside of executions: nodes, pools, routers, sessions and servers, and what operators did. Kept for retention.journal.';
COMMENT ON COLUMN journal.incarnation IS 'The boot of the node that recorded it.';
COMMENT ON COLUMN journal.number IS 'Counts the entries of that boot.';
COMMENT ON COLUMN journal.at IS 'When it happened, by the server''s clock as the node estimates it.';
COMMENT ON COLUMN journal.kind IS 'node, pool, router, session, server, operator, or gap: entries are missing.';
COMMENT ON COLUMN journal.subject IS 'What it is about: an incarnation, a pool, a session as pool/name, store or broker, or what a command named.';
COMMENT ON COLUMN journal.what IS 'What happened.';
COMMENT ON COLUMN journal.reason IS 'Why; of a pool''s condition, which it is.';
COMMENT ON COLUMN journal.caller IS 'Who requested it: a token''s name, local on a node without tokens, or the program that embeds the node; NULL: nobody.';
COMMENT ON COLUMN journal.detail IS 'JSON object with more.';
COMMENT ON INDEX journal_pkey IS 'One row an entry.';
CREATE INDEX journal_at ON journal (at, incarnation, number);
COMMENT ON INDEX journal_at IS 'Entries by time, and old ones.';
CREATE INDEX journal_subject ON journal (subject, at, incarnation, number);
COMMENT ON INDEX journal_subject IS 'The entries about one thing, by time.';

ALTER TABLE execution_event
    ADD COLUMN incarnation uuid,
    ADD COLUMN generation integer,
    ADD COLUMN run_at timestamptz,
    ADD COLUMN scheduled_at timestamptz,
    ADD COLUMN started_at timestamptz;
COMMENT ON COLUMN execution_event.incarnation IS 'Of a take_back or rescue: the node of the placement that it ended.';
COMMENT ON COLUMN execution_event.generation IS 'Of a take_back or rescue: the worker''s generation, where it had claimed.';
COMMENT ON COLUMN execution_event.run_at IS 'Of a take_back or rescue: since when the execution was due.';
COMMENT ON COLUMN execution_event.scheduled_at IS 'Of a take_back or rescue: when the execution was placed.';
COMMENT ON COLUMN execution_event.started_at IS 'Of a rescue: when the run began.';
