package node_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/test/servers"
)

// Both shared exchanges are deleted under a running node: they are declared again with the node's binding, /readyz and the
// log say so, and a notice and a dead letter arrive again.
func TestDeletedExchangesAreDeclaredAgain(t *testing.T) {
	t.Parallel()
	k, o := onServers(t, handle(map[string]messages.Handler{"echo": echo}), goPack(t, map[string]string{"echo": ""}))
	url, _ := servers.RabbitMQ(t)
	exchanges := o.settings.Shared().Exchanges
	k.until("the dead letter handler consumes", func() bool { // before that it declares the exchanges itself
		queue, err := o.Inspect(t.Context(), o.settings.DeadLetterQueue())
		return err == nil && queue.Consumers > 0
	})
	for _, e := range exchanges {
		require.NoError(t, servers.DeleteExchange(url, e.Name))
	}
	for _, e := range exchanges {
		k.until(e.Name+" is back", func() bool {
			there, err := servers.HasExchange(url, e.Name)
			require.NoError(t, err)
			return there
		})
		k.until("/readyz tells of "+e.Name, func() bool {
			return len(k.Ready(t.Context()).Notes) == len(exchanges)
		})
		require.Contains(t, strings.Join(k.Ready(t.Context()).Notes, "\n"), "the exchange "+e.Name+" was missing and was declared again")
	}
	require.Equal(t, 2, k.logged("a shared exchange was missing and is declared again"), "once for each exchange")

	_, notices := o.listen("ears", "execution.*.t.echo")
	id := k.submit("t.echo", nil)
	n, _ := hears[messages.ExecutionCompleted](t, notices)
	require.Equal(t, id, n.ExecutionID)

	dies := broker.Queue{Name: o.settings.Prefix + ".answers", TTL: time.Millisecond, DeadLetterExchange: o.settings.Prefix + ".dlx"}
	require.NoError(t, o.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{dies}}))
	k.until("a dead letter arrives", func() bool { // what died before the binding was back is gone
		_, err := o.Publish(t.Context(), []broker.Message{{RoutingKey: dies.Name, Body: []byte("no work")}})
		require.NoError(t, err)
		page, err := k.DeadLetters().ListDeadLetters(t.Context(), 0, 10)
		require.NoError(t, err)
		return len(page) > 0
	})
}

// without is a broker in which an exchange is missing and may not be declared again.
type without struct {
	broker.Broker
	exchange string
	gone     func() bool
}

var errMayNot = errors.New("the user lacks a permission")

func (w *without) InspectExchange(ctx context.Context, exchange string) error {
	if exchange == w.exchange && w.gone() {
		return broker.ErrNoExchange
	}
	return w.Broker.InspectExchange(ctx, exchange)
}

func (w *without) Declare(ctx context.Context, t broker.Topology) error {
	for _, e := range t.Exchanges {
		if e.Name == w.exchange && w.gone() {
			return errMayNot
		}
	}
	return w.Broker.Declare(ctx, t)
}

// An exchange that stays missing is named for as long as it is.
func TestAnExchangeThatStaysMissingIsTold(t *testing.T) {
	t.Parallel()
	settings := broker.Settings{Prefix: "blue"}
	b := &without{Broker: memory.New(memory.Config{}), exchange: settings.ExecutionsExchange()}
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	looks, gone := node.LookAtExchanges(t, b, settings), true
	b.gone = func() bool { return false }
	require.NoError(t, b.Declare(t.Context(), settings.Shared()))
	require.Empty(t, looks())
	b.gone = func() bool { return gone }
	for range 3 {
		notes := looks()
		require.Len(t, notes, 1)
		require.Contains(t, notes[0], "the exchange blue.executions is missing since ")
		require.Contains(t, notes[0], errMayNot.Error())
	}
	gone = false // somebody else has made it
	notes := looks()
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "was missing and was declared again")
}
