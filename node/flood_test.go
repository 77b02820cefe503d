package node

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// A program that inserts 1,000 submissions which make no execution is told in each of them, and the log once a minute.
func TestRefusedInboxSubmissionsAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n := &Node{logger: hclog.New(&hclog.LoggerOptions{Output: &log}), metrics: &metrics{bridges: newBridgeMetrics(prometheus.NewRegistry())}}
		refuse := func() {
			id := messages.NewExecutionID()
			settled := n.refused(id, "there is no action")
			require.Equal(t, id, settled.ID)
			require.Equal(t, "there is no action", settled.Refused)
		}
		for range 1000 {
			refuse()
		}
		require.Equal(t, 1, strings.Count(log.String(), "refused"))
		time.Sleep(time.Minute)
		refuse()
		require.Equal(t, 2, strings.Count(log.String(), "refused"))
		require.Contains(t, log.String(), "left_out=999")
	})
}

// A broker whose alarm comes and goes is told of once a minute, with the end of that one alarm. One that stays is told of after
// a minute, though its beginning was left out.
func TestAFlappingAlarmIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &server{name: "broker", logger: hclog.New(&hclog.LoggerOptions{Output: &log})}
		s.set(true, false, "")
		for range 1000 {
			require.True(t, s.set(true, true, "low on memory"))
			require.True(t, s.set(true, false, ""))
		}
		require.Equal(t, 1, strings.Count(log.String(), "is blocked"))
		require.Equal(t, 1, strings.Count(log.String(), "is back"))
		s.set(true, true, "low on memory")
		require.Equal(t, 2, strings.Count(log.String(), "\n"), "it has just been told")
		time.Sleep(time.Minute)
		s.set(true, true, "low on memory")
		require.Equal(t, 1, strings.Count(log.String(), "broker is still blocked"))
		s.set(true, false, "")
		require.Equal(t, 2, strings.Count(log.String(), "is back"))
		s.set(true, true, "low on memory")
		require.Contains(t, log.String(), "left_out=1000")
	})
}
