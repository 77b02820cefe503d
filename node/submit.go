package node

import (
	"context"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// complete makes a request that was checked an execution of one of the node's actions, once its parameters are checked too. Its
// error is a *messages.Problem.
func (n *Node) complete(ctx context.Context, r *submit.Request) (messages.Execution, error) {
	a, ok := n.action(r.ActionRef, "")
	if !ok {
		return messages.Execution{}, messages.Problemf(messages.CodeActionNotFound, "there is no action %q; `troupe actions` lists them", r.ActionRef)
	}
	if err := n.catalog.Load().set.Refuse(ctx, a.Ref, r.Parameters); err != nil {
		return messages.Execution{}, err
	}
	return submit.Complete(r, a, &submit.Terms{
		ID: messages.NewExecutionID(), Now: n.clock.Now(), DefaultTimeout: n.cfg.DefaultTimeout, NoWorkerDeadline: n.cfg.NoWorkerDeadline,
		Notify: n.tells(),
	})
}
