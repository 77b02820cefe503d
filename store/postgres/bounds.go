package postgres

import (
	"context"
	"time"
)

// readTimeout bounds one call beside those that go in groups (callTimeout), with a connection made for it: the server ends
// a statement itself after statementTimeout, unless it is frozen or the network swallows what it says.
const readTimeout = dialTimeout + statementTimeout + 2*time.Second

// bounded gives a call its end, whatever its caller allows.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, readTimeout)
}
