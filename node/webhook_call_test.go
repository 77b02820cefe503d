package node

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/webhook"
	"github.com/troupe-run/troupe/store"
)

func callerOf(t *testing.T, allow ...string) *webhookCaller {
	t.Helper()
	policy, err := webhook.ParsePolicy(allow)
	require.NoError(t, err)
	return newWebhookCaller(policy, func(string) ([]byte, error) { return nil, errors.New("no such secret") }, "test", hclog.NewNullLogger())
}

func hookAt(url string) *store.WebhookCall {
	e := messages.Execution{ID: messages.NewExecutionID(), Action: "a.b", Status: messages.Completed}
	return &store.WebhookCall{WebhookRecord: messages.WebhookRecord{Execution: e.ID, Webhook: messages.Webhook{URL: url}}, Of: e}
}

// A name that leads to a forbidden address makes no connection, also where it was allowed when it was checked.
func TestANameThatLeadsInsideIsNotDialled(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	reached := make(chan struct{}, 3)
	go func() {
		for c, err := listener.Accept(); err == nil; c, err = listener.Accept() {
			_ = c.Close()
			reached <- struct{}{}
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, allow := range [][]string{{"public"}, {"10.0.0.0/8"}, {"other.example"}} {
		_, err = callerOf(t, allow...).dial(ctx, "tcp", "localhost:"+port, false)
		require.ErrorContains(t, err, "webhooks.allow", "%v", allow)
		require.Contains(t, failureOf(err), "webhooks.allow")
		require.NotContains(t, failureOf(err), "127.0.0.1")
	}
	require.Empty(t, reached, "not even a connection was made")
	for _, name := range []string{"localhost", "LocalHost"} {
		c, err := callerOf(t, "localhost").dial(ctx, "tcp", name+":"+port, false)
		require.NoError(t, err, "a name is the same in capitals")
		require.NoError(t, c.Close())
	}
}

// A call carries the trace of its execution, where there is one.
func TestACallContinuesTheTrace(t *testing.T) {
	t.Parallel()
	const traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	got := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer server.Close()
	for trace, want := range map[string][2]string{"": {}, traced: {traced, ""}, traced + " a=1": {traced, "a=1"}} {
		c := hookAt(server.URL)
		c.Of.Trace = trace
		require.Equal(t, 200, callerOf(t, "http://127.0.0.1").call(t.Context(), c).Code)
		header := <-got
		require.Equal(t, want, [2]string{header.Get("traceparent"), header.Get("tracestate")})
	}
}

func TestWhatBecomesOfACall(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does a server see that its caller has gone
		switch r.URL.Path {
		case "/later":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/drops":
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = c.Close()
			}
		case "/hangs":
			<-r.Context().Done()
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, "more of what nobody reads, and more, and more, and more"); err != nil {
					return
				}
			}
		}
	}))
	defer server.Close()
	caller := callerOf(t, "http://127.0.0.1")
	call := func(path string) webhook.Answer { return caller.call(t.Context(), hookAt(server.URL+path)) }
	require.Equal(t, webhook.Answer{Code: 200}, call("/"))
	require.Equal(t, webhook.Answer{Code: 503, RetryAfter: "7"}, call("/later"))
	require.Equal(t, webhook.Answer{Failure: "no answer: the connection broke off without an answer"}, call("/drops"))
	require.Equal(t, 200, call("/endless").Code, "no more of an answer is read than is needed")
	brief, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	require.Equal(t, webhook.Answer{Failure: "no answer: none came within 10s"}, caller.call(brief, hookAt(server.URL+"/hangs")))
	unsigned := hookAt(server.URL)
	unsigned.Secret = "billing"
	require.Equal(t, "not signed, so not sent: no such secret", caller.call(t.Context(), unsigned).Failure)
	require.Contains(t, callerOf(t, "public").call(t.Context(), hookAt(server.URL)).Failure, "webhooks.allow", "the settings have changed since")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NotEmpty(t, caller.call(ctx, hookAt(server.URL)).Failure)

	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	require.Equal(t, webhook.Answer{Failure: "no answer: the certificate is of an authority that this node does not know"}, callerOf(t, "127.0.0.1").call(t.Context(), hookAt(secure.URL)))
}

func TestWebhookSettingsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		w    Webhooks
		key  string
		text string
	}{
		"an entry":         {Webhooks{Allow: []string{"a b"}}, "webhooks.allow", "want public"},
		"a literal":        {Webhooks{Secrets: []string{"billing=whsec_abcdef"}}, "webhooks.secrets", "never a secret itself"},
		"twice":            {Webhooks{Secrets: []string{"a=env:X", "a=env:Y"}}, "webhooks.secrets", "twice"},
		"a private one":    {Webhooks{Allow: []string{"public"}, URL: "https://10.0.0.1/"}, "webhooks.url", "webhooks.allow"},
		"an unknown one":   {Webhooks{Allow: []string{"public"}, URL: "https://x.example/", Secret: "no"}, "webhooks.url", "no secret"},
		"without address":  {Webhooks{Secret: "no"}, "webhooks.url", "together"},
		"no such outcome":  {Webhooks{Allow: []string{"public"}, URL: "https://x.example/", On: []string{"running"}}, "webhooks.url", "no outcome"},
		"an address: none": {Webhooks{URL: "none"}, "webhooks.url", "must be an address"},
	} {
		problems := c.w.Problems()
		require.Len(t, problems, 1, name)
		require.Equal(t, c.key, problems[0].Key)
		require.Contains(t, problems[0].Text, c.text)
		require.NotContains(t, problems[0].Text, "abcdef")
	}
	require.Empty(t, webhookDefaults().Problems())
	require.Equal(t, []string{"A", "B"}, Webhooks{Secrets: []string{"x=env:B", "y=env:A", "z=file:/f", "w=env:A"}}.SecretVariables())
}
