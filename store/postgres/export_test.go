package postgres

// Settings are what every connection of the store sets.
func Settings(c Config) map[string]string { return c.withDefaults().settings() }

// Schema is where the store's tables are.
func (s *Store) Schema() string { return s.cfg.Schema }
