package store

import (
	"errors"

	"github.com/troupe-run/troupe/messages"
)

// AsProblem maps the refusals of a submission to *messages.Problem. It returns other errors unchanged.
func AsProblem(err error) error {
	var conflict *ConflictError
	switch {
	case errors.As(err, &conflict):
		return &messages.Problem{Code: messages.CodeKeyConflict, Message: conflict.Error(),
			Details: map[string]any{"execution": conflict.Holder}}
	case errors.Is(err, ErrInvalid):
		return &messages.Problem{Code: messages.CodeInvalidRequest, Cause: messages.CauseAction, Message: err.Error()}
	}
	return err
}
