package node

import (
	"context"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// Prepare checks requests and completes them to executions, as Submit does, and stores nothing: for callers that store
// them in a transaction of their own. Its errors are *messages.Problem.
func (n *Node) Prepare(ctx context.Context, requests []submit.Request) ([]messages.Execution, error) {
	if shut := n.gate(); shut != nil {
		return nil, shut
	}
	if n.phase.draining.Load() {
		return nil, &messages.Problem{Code: messages.CodeDraining, Message: "this node is shutting down and takes no more work"}
	}
	executions := make([]messages.Execution, len(requests))
	for i := range requests {
		e, err := n.complete(ctx, &requests[i])
		if err != nil {
			return nil, inBatch(err, i, len(requests))
		}
		executions[i] = e
	}
	return executions, nil
}

// Adapter is the store as its adapter opened it, for what only that adapter can do; nil while the node waits for it.
func (n *Node) Adapter() store.Store {
	if !n.phase.open.Load() {
		return nil
	}
	return n.adapter
}
