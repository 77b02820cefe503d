-- Nodes prove to each other that they belong to the cluster. Those of the version before know nothing of it: what they insert has
-- peer_proof 0, and nodes of this version take them without a proof while they live.

CREATE TABLE cluster_secret (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    secret     bytea       NOT NULL CHECK (octet_length(secret) = 32),
    created_at timestamptz NOT NULL DEFAULT now(),
    retired_at timestamptz
);
COMMENT ON TABLE cluster_secret IS 'The secrets by which the nodes authenticate each other. A user who reads one can act as a node: grant it to the nodes'' user alone.';
COMMENT ON COLUMN cluster_secret.id IS 'Grows with each rotation.';
COMMENT ON COLUMN cluster_secret.secret IS '32 random bytes, made by the first node that starts, or by troupe cluster rotate-secret.';
COMMENT ON COLUMN cluster_secret.created_at IS 'When it was made.';
COMMENT ON COLUMN cluster_secret.retired_at IS 'Until when it is accepted after a newer one was made; NULL: it is the current one.';
COMMENT ON SEQUENCE cluster_secret_id_seq IS 'The numbers of cluster_secret.id.';
COMMENT ON INDEX cluster_secret_pkey IS 'One row a secret.';
CREATE UNIQUE INDEX cluster_secret_current ON cluster_secret ((true)) WHERE retired_at IS NULL;
COMMENT ON INDEX cluster_secret_current IS 'There is one current secret.';

ALTER TABLE node ADD COLUMN peer_proof smallint NOT NULL DEFAULT 0;
COMMENT ON COLUMN node.peer_proof IS 'Version of the proof that it gives its peers, and asks of them; 0: none, it is of an older release.';
