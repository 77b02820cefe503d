package postgres

import "github.com/troupe-run/troupe/messages"

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

// FreshColumns are the columns of an insert, and whether rows that are alike may differ in them.
func FreshColumns() map[string]bool {
	columns := map[string]bool{}
	for _, f := range freshFields {
		columns[f.name] = f.own
	}
	return columns
}

// Alike reports whether the executions go into an insert of rows that are alike.
func Alike(executions []messages.Execution) bool {
	var rows freshRows
	for i := range executions {
		if rows.add(&executions[i]) != nil {
			return false
		}
	}
	return rows.alike()
}
