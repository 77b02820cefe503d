package view

import "context"

// reasonKey is the key of a reason in the context of a command.
type reasonKey struct{}

// WithReason adds why somebody has something done. What carries the command out records it with the caller.
func WithReason(ctx context.Context, reason string) context.Context {
	if reason == "" {
		return ctx
	}
	return context.WithValue(ctx, reasonKey{}, reason)
}

// ReasonOf returns the reason of a command; empty: none was given.
func ReasonOf(ctx context.Context) string {
	reason, _ := ctx.Value(reasonKey{}).(string)
	return reason
}
