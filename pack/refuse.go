package pack

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/troupe-run/troupe/messages"
)

// Refuse is Validate for submissions: its error is a *messages.Problem that names the action.
func (s *Set) Refuse(ctx context.Context, ref string, params json.RawMessage) error {
	err := s.Validate(ctx, ref, params)
	var bad *ParameterError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad):
		return &messages.Problem{
			Code: bad.Code, Message: "action " + ref + ": " + bad.Error(), Details: map[string]any{"problems": bad.Problems},
		}
	case ctx.Err() != nil:
		return messages.Problemf(messages.CodeUnavailable,
			"action %s: the request ended before its parameters were checked; this node checks too many now: try again", ref)
	default:
		return messages.Problemf(messages.CodeInvalidParameters, "action %s: %v", ref, err)
	}
}
