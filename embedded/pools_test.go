package embedded_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/embedded"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/test/servers"
)

// The pool of the program's handlers gets its work directly, although the node has a RabbitMQ.
func TestAPoolOfAProgramHasItsOwnDispatch(t *testing.T) {
	if testing.Short() {
		t.Skip("needs servers: not with -short")
	}
	t.Parallel()
	amqp, prefix := servers.RabbitMQ(t)
	n, err := embedded.New(embedded.Config{
		Data: t.TempDir(), Store: servers.Postgres(t), Broker: amqp, Prefix: prefix, Listen: "127.0.0.1:0",
		Pools: node.PoolSettings{"go": {Dispatch: node.DispatchDirect}},
	}, troupe.Action{Name: "demo.greet", Handler: greet})
	require.NoError(t, err)
	require.NoError(t, n.Start(t.Context()))
	defer func() { require.NoError(t, n.Stop(context.WithoutCancel(t.Context()))) }()
	e, err := n.Call(t.Context(), troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "Ada"}})
	require.NoError(t, err)
	require.Equal(t, troupe.Completed, e.Status, "%v", e.Error)

	answer, err := http.Get("http://" + n.Addr() + "/api/v1/pools")
	require.NoError(t, err)
	defer answer.Body.Close()
	var list struct {
		Pools []struct{ Name, Dispatch string }
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&list))
	require.Equal(t, []struct{ Name, Dispatch string }{{"go", node.DispatchDirect}}, list.Pools)
}

func TestAWrongDispatchOfAPoolIsRefused(t *testing.T) {
	t.Parallel()
	_, err := embedded.New(embedded.Config{Data: t.TempDir(), Pools: node.PoolSettings{"go": {Dispatch: "fast"}}},
		troupe.Action{Name: "demo.greet", Handler: greet})
	require.ErrorContains(t, err, `go.dispatch: must be direct, broker or empty, got "fast"`)
}
