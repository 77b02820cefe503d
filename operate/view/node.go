package view

import "github.com/troupe-run/troupe/store"

// Node is one incarnation, and how the node that was asked stands with it.
type Node struct {
	store.Node
	// Reach is self, or a word of how the two stand: see docs/clustering.md. Empty for a dead one.
	Reach string `json:"reach,omitempty"`
	Why   string `json:"why,omitempty"`
	// StoreSeen is whether it renews its lease, as it said when it was asked last.
	StoreSeen *bool `json:"store_seen,omitempty"`
}
