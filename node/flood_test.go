package node

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
)

// A program that inserts 1,000 submissions which make no execution is told in each of them, and the log once a minute.
func TestRefusedInboxSubmissionsAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		in := &intake{base: &base{logger: hclog.New(&hclog.LoggerOptions{Output: &log})}, count: newBridgeMetrics(prometheus.NewRegistry()).intake}
		refuse := func() {
			id := messages.NewExecutionID()
			settled := in.refused(id, "there is no action")
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

// declares is a broker that is asked for nothing but to declare.
type declares struct {
	broker.Broker
	err error
}

func (d *declares) Declare(context.Context, broker.Topology) error { return d.err }

// An exchange that somebody deletes again and again, or that cannot be declared, is told of once and then once a minute, with how
// often it was found missing in between. Another exchange is told of by itself.
func TestAMissingExchangeIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	for text, err := range map[string]error{
		"is declared again": nil, "cannot be declared": errors.New("the user lacks a permission"),
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			w := &watcher{node: &base{broker: &shared{adapter: &declares{err: err}}}, broker: server{logger: hclog.New(&hclog.LoggerOptions{Output: &log})}}
			found := func(name string) { w.declareExchange(t.Context(), broker.Exchange{Name: name}) }
			for range 1000 {
				found("blue.executions")
			}
			require.Equal(t, 1, strings.Count(log.String(), text))
			require.NotContains(t, log.String(), "left_out")
			time.Sleep(time.Minute)
			found("blue.executions")
			require.Equal(t, 2, strings.Count(log.String(), text))
			require.Equal(t, 1, strings.Count(log.String(), "left_out=999"))
			found("blue.dlx")
			require.Equal(t, 3, strings.Count(log.String(), text))
		})
	}
}
