package troupe

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// SubmitTx stores one execution within the caller's own transaction, on the very database that Config.Store names: it
// exists, and starts at once, when the transaction commits, and was never there when it does not. The request is checked
// as Submit does. After an error that is no *Problem the transaction can only be rolled back. A program that runs no node
// uses a Client.
func (t *Troupe) SubmitTx(ctx context.Context, tx pgx.Tx, s Submission) (Execution, error) {
	r, err := s.checked()
	if err != nil {
		return Execution{}, err
	}
	n := t.node.Node()
	executions, err := n.Prepare(ctx, []submit.Request{r})
	if err != nil {
		return Execution{}, err
	}
	adapter, ok := n.Adapter().(*postgres.Store)
	if !ok {
		return Execution{}, errNoPostgres
	}
	stored, err := adapter.SubmitTx(ctx, tx, executions)
	if err != nil {
		return Execution{}, asProblem(err)
	}
	return stored[0].Execution, nil
}

var errNoPostgres = errors.New("SubmitTx needs a node of the full mode: give Config.Store a postgres:// address, and Config.Broker")

// checked is the request, with what can be said of it alone checked.
func (s *Submission) checked() (submit.Request, error) {
	r, err := s.request()
	if err != nil {
		return r, err
	}
	if problem := r.Check(); problem != nil {
		return r, problem
	}
	return r, nil
}

// asProblem makes the store's refusals what the API makes of them. A conflict leaves the caller's transaction as it was.
func asProblem(err error) error {
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict):
		return &Problem{Code: messages.CodeKeyConflict, Message: conflict.Error(),
			Details: map[string]any{"execution": conflict.Holder}}
	case errors.Is(err, store.ErrInvalid):
		return &Problem{Code: messages.CodeInvalidRequest, Cause: messages.CauseAction, Message: err.Error()}
	}
	return err
}
