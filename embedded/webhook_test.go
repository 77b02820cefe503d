package embedded_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/embedded"
	"github.com/troupe-run/troupe/node"
)

// A program's action, or its submission, names who is told of the outcome by HTTP.
func TestWebhooksOfAProgram(t *testing.T) {
	t.Parallel()
	told := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		told <- r.URL.Path + " " + r.Header.Get("webhook-id") + " " + r.Header.Get("traceparent")
	}))
	defer server.Close()
	n, err := embedded.New(embedded.Config{Data: t.TempDir(), Webhooks: node.Webhooks{Allow: []string{"http://127.0.0.1"}}},
		troupe.Action{Name: "demo.greet", Handler: greet, Webhook: &troupe.Webhook{URL: server.URL + "/action"}})
	require.NoError(t, err)
	require.NoError(t, n.Start(t.Context()))
	defer func() { require.NoError(t, n.Stop(context.WithoutCancel(t.Context()))) }()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	next := func() string {
		select {
		case got := <-told:
			return got
		case <-time.After(30 * time.Second):
			t.Fatal("nobody was told")
			return ""
		}
	}
	e, err := n.Submit(t.Context(), troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "Ada"}, Trace: trace})
	require.NoError(t, err)
	require.Equal(t, "/action "+e.ID.String()+" "+trace, next())
	e, err = n.Submit(t.Context(), troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "Ada"}, Webhook: &troupe.Webhook{URL: server.URL + "/own"}})
	require.NoError(t, err)
	require.Equal(t, "/own "+e.ID.String()+" ", next())
	_, err = n.Submit(t.Context(), troupe.Submission{Action: "demo.greet", Webhook: &troupe.Webhook{URL: "https://10.0.0.1/"}})
	require.ErrorContains(t, err, "webhooks.allow")
	_, err = embedded.New(embedded.Config{Data: t.TempDir()}, troupe.Action{Name: "demo.greet", Handler: greet, Webhook: &troupe.Webhook{URL: "x"}})
	require.ErrorContains(t, err, `action "demo.greet": webhook: url`)
}
