-- The steps that only add to the schema are recorded by name, beside the migrations. Their number stays, so that a program of a release before
-- opens the file. A step that takes something away is made a release later: it raises schema_oldest, and then older programs are refused.

-- The steps that were made.
CREATE TABLE schema_step (
    name       TEXT    NOT NULL PRIMARY KEY,
    applied_at INTEGER NOT NULL
);

-- One row: the oldest generation of the program that may use the file (0: any), and its first release.
CREATE TABLE schema_oldest (
    generation INTEGER NOT NULL,
    release    TEXT    NOT NULL
);
INSERT INTO schema_oldest VALUES (0, '');
