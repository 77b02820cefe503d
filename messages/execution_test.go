package messages_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func TestAWaitBeginsWhenAnExecutionIsDue(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time {
		if seconds == 0 {
			return time.Time{}
		}
		return time.Unix(int64(seconds), 0)
	}
	for name, c := range map[string]struct{ requested, runAt, want int }{
		"at its request":                        {requested: 10, runAt: 10, want: 10},
		"without a run_at":                      {requested: 10, want: 10},
		"later":                                 {requested: 10, runAt: 20, want: 20},
		"a run_at that was over at its request": {requested: 10, runAt: 5, want: 10},
	} {
		e := messages.Execution{RequestedAt: at(c.requested), RunAt: at(c.runAt)}
		require.Equal(t, at(c.want), e.Due(), name)
	}
}
