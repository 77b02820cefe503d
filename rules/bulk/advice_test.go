package bulk_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/bulk"
)

func TestWhatADeadLetterMeans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ reason, resolution, means string }{
		{"expired", "failed", "for the whole TTL"},
		{"maxlen", "failed", "queue was full"},
		{"delivery_limit", "failed", "gave the message back"},
		{"expired", "stale", "already over"},
		{"rejected", "missing", "does not have its execution"},
		{"malformed", "quarantined: it is no JSON", "another program"},
		{"malformed", "discarded", "has marked it as handled"},
		{"refused", "quarantined: no such action", "a submission by AMQP"},
		{"expired", "requeued", "submitted again"},
		{"expired", "quarantined: a submission that no node took", "no node could handle"},
	} {
		means, whatToDo := bulk.LetterAdvice(c.reason, c.resolution)
		require.Contains(t, means, c.means, "%s %s", c.reason, c.resolution)
		require.NotEmpty(t, whatToDo)
	}
}
