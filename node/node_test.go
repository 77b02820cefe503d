package node_test

import (
	"context"
	"encoding/json"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/submit"
)

func TestMain(m *testing.M) {
	process.RunHelper()
	syscall.Umask(0o022) // folders of tests are data folders of nodes, which refuse what others may write to
	if os.Getenv(pairVar) != "" {
		playSecond()
	}
	if os.Getenv(operationVar) != "" {
		playOperation()
	}
	goleak.VerifyTestMain(m)
}

// start brings a node up that lives as long as the test.
func start(t *testing.T, change func(*node.Config)) *node.Node {
	t.Helper()
	cfg := node.Config{Data: t.TempDir(), Name: "test", Logger: hclog.New(&hclog.LoggerOptions{
		Level: hclog.LevelFromString(os.Getenv("TROUPE_TEST_LOG")), Output: os.Stderr,
	})}
	if change != nil {
		change(&cfg)
	}
	n, err := node.New(cfg)
	require.NoError(t, err)
	require.NoError(t, n.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, n.Stop(ctx))
	})
	return n
}

// run submits one execution and waits for its outcome.
func run(t *testing.T, n *node.Node, r submit.Request) messages.Execution {
	t.Helper()
	submitted, err := n.Backend().Submit(t.Context(), []submit.Request{r})
	require.NoError(t, err)
	return await(t, n, submitted[0].Execution.ID)
}

func await(t *testing.T, n *node.Node, id messages.ExecutionID) messages.Execution {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	e, err := n.Backend().Wait(ctx, id)
	require.NoError(t, err)
	if !e.Status.Terminal() {
		why, _ := n.Backend().Why(t.Context(), id)
		require.FailNow(t, "no outcome", "status %s, %s: %s", e.Status, why.Reason, why.Message)
	}
	return e
}

func TestEachRuntimeRunsAnAction(t *testing.T) {
	n := start(t, nil)
	for _, c := range []struct{ action, parameters, result string }{
		{"core.echo", `{"message":"hi"}`, `{"message":"hi"}`},
		{"core.shell_echo", `{"message":"hi"}`, `{"message":"hi"}`},
		{"demo.counter", `{}`, ``},
	} {
		t.Run(c.action, func(t *testing.T) {
			r := submit.Request{ActionRef: c.action, Parameters: json.RawMessage(c.parameters)}
			if c.action == "demo.counter" {
				r.Session = "s"
			}
			e := run(t, n, r)
			require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
			if c.result != "" {
				require.JSONEq(t, c.result, string(e.Result))
			}
		})
	}
}
