-- Events name who asked for them. Nodes of the version before leave it empty, and write who cancelled as the reason.

ALTER TABLE execution_event ADD COLUMN by text;
COMMENT ON COLUMN execution_event.by IS 'Who requested it: a token''s name, local on a node without tokens, or the program that embeds the node; NULL: nobody.';

-- Whoever rotates the cluster's secret calls this server, and no node.
ALTER TABLE cluster_secret ADD COLUMN created_by text;
ALTER TABLE cluster_secret ALTER COLUMN created_by SET DEFAULT session_user;
COMMENT ON COLUMN cluster_secret.created_by IS 'The role that made it; NULL: an older release made it.';
