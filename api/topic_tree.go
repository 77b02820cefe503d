package api

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/rules/live"
)

// treeTick is how often the trees are read: each node is asked for all of its actors.
const treeTick = 2 * time.Second

// topicTree is the trees of all nodes, or of one.
func topicTree(s *server, q query) (func(context.Context) (any, error), func(*hub.Change, func(string) bool) bool, error) {
	if s.Tree == nil {
		return nil, nil, invalid("this node has no actor tree")
	}
	read := s.Tree(q.text("node"))
	return func(ctx context.Context) (any, error) { return read(ctx) }, nil, nil
}

// treeEntries returns the entries of the trees, which are read as such.
func treeEntries(*server) func(answer any) ([]live.Entry, error) {
	return func(answer any) ([]live.Entry, error) { return answer.([]live.Entry), nil }
}
