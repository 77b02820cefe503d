package postgres

import (
	"context"
	"time"
)

// readTimeout bounds a call that is not in a group (see callTimeout), with the time to connect. The server itself ends
// a statement after statementTimeout, unless it is frozen or the network drops its answer.
const readTimeout = dialTimeout + statementTimeout + 2*time.Second

// bounded adds readTimeout to the caller's context.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, readTimeout)
}
