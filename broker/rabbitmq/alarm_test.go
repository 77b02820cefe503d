package rabbitmq

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
)

// If a server starts and ends an alarm 1,000 times, the log has one line, and a minute later another with the number of
// omitted lines. The status is always the current one.
func TestAFlappingAlarmIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &session{gate: gate{shut: make(chan struct{})}}
		b := &Broker{config: Config{Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}, publishing: &link{session: s}, consuming: &link{session: s}}
		b.note()
		require.True(t, b.Status().Up)
		flap := func() {
			for _, shut := range []bool{true, false} {
				s.gate.set(shut, "low on memory")
				b.note()
				require.Equal(t, shut, b.Status().Blocked)
			}
		}
		for range 1000 {
			flap()
		}
		require.Equal(t, 1, strings.Count(log.String(), "the broker takes no messages"))
		require.Equal(t, 1, strings.Count(log.String(), "not blocking any more"))
		time.Sleep(time.Minute)
		flap()
		require.Equal(t, 2, strings.Count(log.String(), "the broker takes no messages"))
		require.Equal(t, 2, strings.Count(log.String(), "not blocking any more"))
		require.Contains(t, log.String(), "left_out=999")
	})
}
