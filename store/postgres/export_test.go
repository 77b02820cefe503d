package postgres

// Settings are what every connection of the store sets.
func Settings(c Config) map[string]string { return c.withDefaults().settings() }

// Schema is where the store's tables are.
func (s *Store) Schema() string { return s.cfg.Schema }

// ConnsMax is how many connections the pool of a store would have.
func ConnsMax(c Config) (int32, error) {
	p, err := c.withDefaults().pool()
	if err != nil {
		return 0, err
	}
	return p.MaxConns, nil
}
