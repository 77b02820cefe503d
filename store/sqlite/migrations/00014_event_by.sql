-- +goose Up

-- execution_event.by: who asked for it, as a token's name; NULL: nobody. The version before wrote who cancelled as the reason.
ALTER TABLE execution_event ADD COLUMN by TEXT;
