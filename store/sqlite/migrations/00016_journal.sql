-- +goose Up

-- journal: what changed outside of executions. (incarnation, number) names an entry, so that a repeated write has no effect.
CREATE TABLE journal (
    incarnation BLOB    NOT NULL,                     -- the boot of the node that recorded it
    number      INTEGER NOT NULL,                     -- counts the entries of that boot
    at          INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    subject     TEXT    NOT NULL,
    what        TEXT    NOT NULL,
    reason      TEXT,
    caller      TEXT,                                 -- who asked for it; NULL: nobody
    detail      BLOB,                                 -- JSON
    PRIMARY KEY (incarnation, number)
) WITHOUT ROWID;
CREATE INDEX journal_at ON journal (at, incarnation, number);
CREATE INDEX journal_subject ON journal (subject, at, incarnation, number);

-- execution_event: the placement that a take_back or rescue ended. The row of the execution does not keep it.
ALTER TABLE execution_event ADD COLUMN incarnation BLOB;
ALTER TABLE execution_event ADD COLUMN generation INTEGER;
ALTER TABLE execution_event ADD COLUMN run_at INTEGER;
ALTER TABLE execution_event ADD COLUMN scheduled_at INTEGER;
ALTER TABLE execution_event ADD COLUMN started_at INTEGER;
