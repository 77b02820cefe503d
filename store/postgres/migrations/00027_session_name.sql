-- Sessions are searched by the beginning of their names. The order of a database's texts does not say where such names end, that of bytes does.

CREATE INDEX session_name ON session (pool, session COLLATE "C");
COMMENT ON INDEX session_name IS 'Sessions of a pool whose names begin alike.';
