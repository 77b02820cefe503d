package embedded

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// SubmitTx stores one execution in the caller's own transaction, on the database of Config.Store. The execution exists
// and starts when the transaction commits. If the transaction does not commit, the execution never existed. The request
// is checked as in Submit. After an error that is no *Problem the transaction can only be rolled back. A program that
// runs no node uses package pgtx.
func (n *Node) SubmitTx(ctx context.Context, tx pgx.Tx, s troupe.Submission) (troupe.Execution, error) {
	r, err := s.Request()
	if err != nil {
		return troupe.Execution{}, err
	}
	inner := n.node.Node()
	executions, err := inner.Prepare(ctx, []submit.Request{r})
	if err != nil {
		return troupe.Execution{}, err
	}
	adapter, ok := inner.Adapter().(*postgres.Store)
	if !ok {
		return troupe.Execution{}, errNoPostgres
	}
	stored, err := adapter.SubmitTx(ctx, tx, executions)
	if err != nil {
		return troupe.Execution{}, store.AsProblem(err)
	}
	return stored[0].Execution, nil
}

var errNoPostgres = errors.New("SubmitTx needs a node whose store is Postgres: give Config.Store a postgres:// address")
