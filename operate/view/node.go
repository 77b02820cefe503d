package view

import (
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Node is one incarnation, and its connection to the answering node.
type Node struct {
	// LeaseUntil is zero where the node has its store for itself: nobody is held to a lease there.
	store.Node
	// Reach is self, or a word for the connection: see docs/clustering.md. Empty for a dead node.
	Reach string `json:"reach,omitempty"`
	Why   string `json:"why,omitempty"`
	// StoreSeen says whether it renews its lease, by its last answer.
	StoreSeen *bool `json:"store_seen,omitempty"`
}

// Sight is a node as another one sees it.
type Sight struct {
	Node        string               `json:"node"`
	Incarnation messages.Incarnation `json:"incarnation"`
	Reach       string               `json:"reach" doc:"a word for the connection; docs/clustering.md lists them"`
	Why         string               `json:"why,omitempty"`
}

// Sights are the other live nodes as one of them sees them.
type Sights struct {
	Node        string               `json:"node"`
	Incarnation messages.Incarnation `json:"incarnation"`
	Others      []Sight              `json:"others"`
}
