package troupe_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/embedded"
	"github.com/troupe-run/troupe/messages"
)

func TestMain(m *testing.M) {
	embedded.RunHelper()
	syscall.Umask(0o022) // folders of tests are data folders of nodes, which refuse what others may write to
	os.Exit(m.Run())
}

// act fails, holds until it is told to stop, or greets, by its parameters' name.
func act(ctx context.Context, t *troupe.Task) (any, error) {
	var p struct {
		Name string `json:"name"`
	}
	if err := t.Bind(&p); err != nil {
		return nil, err
	}
	switch p.Name {
	case "fail":
		return nil, &troupe.Error{Code: "busy", Message: "try again"}
	case "hold":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return map[string]string{"greeting": "hello, " + p.Name}, nil
}

func named(name string) troupe.Submission {
	return troupe.Submission{Action: "demo.act", Parameters: map[string]string{"name": name}}
}

// serve starts a node and returns a client of its API.
func serve(t *testing.T) *troupe.Client {
	t.Helper()
	c, err := troupe.NewClient(troupe.ClientConfig{Server: serveAt(t)})
	require.NoError(t, err)
	return c
}

// serveAt starts a node and returns its address.
func serveAt(t *testing.T) string {
	t.Helper()
	schema := json.RawMessage(`{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}`)
	n, err := embedded.New(embedded.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", Workers: 2, ShutdownTimeout: time.Second},
		troupe.Action{Name: "demo.act", Handler: act, Parameters: schema})
	require.NoError(t, err)
	require.NoError(t, n.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, n.Stop(context.Background())) })
	return "http://" + n.Addr()
}

func TestClientRunsWhatItSubmits(t *testing.T) {
	t.Parallel()
	c, ctx := serve(t), t.Context()
	s := named("Ada")
	s.Session, s.Affinity, s.Timeout, s.IdempotencyKey = "s/1", troupe.Hint, 90*time.Second, "key"
	s.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 a=1"
	e, err := c.Call(ctx, s)
	require.NoError(t, err)
	require.Equal(t, []any{troupe.Completed, "s/1", troupe.Hint, 90 * time.Second}, []any{e.Status, e.Session, e.Affinity, e.Timeout})
	require.JSONEq(t, `{"greeting":"hello, Ada"}`, string(e.Result))
	require.Equal(t, s.Trace, e.Trace)
	again, err := c.Submit(ctx, s)
	require.NoError(t, err)
	require.Equal(t, e.ID, again.ID)
	session, err := c.Session(ctx, "go", "s/1")
	require.NoError(t, err)
	require.False(t, session.Worker.IsZero())
	session, err = c.EndSession(ctx, "go", "s/1")
	require.NoError(t, err)
	require.True(t, session.Worker.IsZero())

	failing := named("fail")
	failing.Trace = s.Trace
	list, err := c.SubmitAll(ctx, []troupe.Submission{named("x"), failing})
	require.NoError(t, err)
	require.Len(t, list, 2)
	failed, err := c.Wait(ctx, list[1].ID)
	require.NoError(t, err)
	require.Equal(t, troupe.Failed, failed.Status)
	require.Equal(t, "busy: try again", failed.Error.Error())
	answer, err := c.RetryAnswer(ctx, failed.ID)
	require.NoError(t, err)
	require.Contains(t, answer.Message, "no retry follows")
	retried, err := c.Retry(ctx, failed.ID)
	require.NoError(t, err)
	require.Equal(t, failed.ID, retried.Original)
	require.Equal(t, s.Trace, retried.Trace, "a retry by hand belongs to the same trace")
}

// A call follows an execution that is retried to the last of its chain, over HTTP and in the program, with a session and without. Another
// request under one key is a problem both ways.
func TestACallFollowsItsRetries(t *testing.T) {
	t.Parallel()
	n, err := embedded.New(embedded.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", Workers: 2, ShutdownTimeout: time.Second},
		troupe.Action{Name: "demo.act", MaxRetries: 2, Retry: troupe.RetryPolicy{Base: 10 * time.Millisecond}, Handler: func(_ context.Context, t *troupe.Task) (any, error) {
			if t.RetryCount < 2 {
				return nil, errors.New("not yet")
			}
			return t.RetryCount, nil
		}})
	require.NoError(t, err)
	require.NoError(t, n.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, n.Stop(context.Background())) })
	c, err := troupe.NewClient(troupe.ClientConfig{Server: "http://" + n.Addr()})
	require.NoError(t, err)
	type caller interface {
		Call(context.Context, troupe.Submission) (troupe.Execution, error)
		Submit(context.Context, troupe.Submission) (troupe.Execution, error)
	}
	for name, by := range map[string]caller{"node": n, "client": c} {
		for _, session := range []string{"", "s"} {
			s := named("Ada")
			s.Session, s.IdempotencyKey = session, name+session
			e, err := by.Call(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, []any{troupe.Completed, 2, "2"}, []any{e.Status, e.RetryCount, string(e.Result)}, name+session)
			s.Parameters = map[string]string{"name": "Bob"}
			_, err = by.Submit(t.Context(), s)
			var p *troupe.Problem
			require.ErrorAs(t, err, &p, name)
			require.Equal(t, messages.CodeKeyConflict, p.Code)
			_, err = by.Call(t.Context(), s)
			require.ErrorAs(t, err, &p, name)
		}
	}
}

// The end of the caller's time is no error of Wait.
func TestClientsWaitEndsWithItsTime(t *testing.T) {
	t.Parallel()
	c, ctx := serve(t), t.Context()
	e, err := c.Submit(ctx, named("hold"))
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	e, err = c.Wait(short, e.ID)
	require.NoError(t, err)
	require.False(t, e.Status.Terminal())
	_, err = c.Cancel(ctx, e.ID)
	require.NoError(t, err)
	e, err = c.Wait(ctx, e.ID)
	require.NoError(t, err)
	require.Equal(t, troupe.Cancelled, e.Status)
}

func TestClientTellsProblems(t *testing.T) {
	t.Parallel()
	c, ctx := serve(t), t.Context()
	for want, s := range map[string]troupe.Submission{
		"action_not_found":   {Action: "demo.nothing"},
		"invalid_parameters": {Action: "demo.act", Parameters: map[string]int{"name": 7}},
		"invalid_request":    {Action: "demo.act", Session: "a\x00b"},
	} {
		_, err := c.Submit(ctx, s)
		var p *troupe.Problem
		require.ErrorAs(t, err, &p, want)
		require.Equal(t, want, string(p.Code))
	}
	_, err := troupe.NewClient(troupe.ClientConfig{Server: "127.0.0.1:1"})
	require.ErrorContains(t, err, "http://127.0.0.1:7070")
	nobody, err := troupe.NewClient(troupe.ClientConfig{Server: "http://127.0.0.1:1"})
	require.NoError(t, err)
	_, err = nobody.Get(ctx, troupe.ExecutionID{})
	var p *troupe.Problem
	require.Error(t, err)
	require.NotErrorAs(t, err, &p, "it is not known what became of the request")
}

// A call is one request, and where its answer is lost, the caller knows what was stored.
func TestClientsCallIsOneRequest(t *testing.T) {
	t.Parallel()
	counted := &counting{inner: http.DefaultTransport}
	c, err := troupe.NewClient(troupe.ClientConfig{Server: serveAt(t), HTTP: &http.Client{Transport: counted}})
	require.NoError(t, err)
	e, err := c.Call(t.Context(), named("Ada"))
	require.NoError(t, err)
	require.Equal(t, troupe.Completed, e.Status)
	require.EqualValues(t, 1, counted.calls.Load())

	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	e, err = c.Call(short, named("hold"))
	require.NoError(t, err, "the end of the caller's time is no error")
	require.False(t, e.ID.IsZero())
	require.False(t, e.Status.Terminal())

	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form.SayEarly(w, r, e.ID)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(node.Close)
	lost, err := troupe.NewClient(troupe.ClientConfig{Server: node.URL})
	require.NoError(t, err)
	known, err := lost.Call(t.Context(), named("Ada"))
	require.Error(t, err)
	require.Equal(t, e.ID, known.ID)
	_, err = c.Cancel(t.Context(), e.ID)
	require.NoError(t, err)
}

// A call to a session ends with the node's word, and the execution as it stands.
func TestClientsCallToASessionHasADeadline(t *testing.T) {
	t.Parallel()
	id := messages.NewExecutionID()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(`{"id":"` + id.String() + `","status":"running"}`))
			return
		}
		form.SayEarly(w, r, id)
		w.WriteHeader(http.StatusGatewayTimeout)
		_, _ = w.Write([]byte(`{"error":{"code":"timeout","message":"Session operation timeout"}}`))
	}))
	t.Cleanup(node.Close)
	c, err := troupe.NewClient(troupe.ClientConfig{Server: node.URL})
	require.NoError(t, err)
	e, err := c.Call(t.Context(), named("Ada"))
	var p *troupe.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, messages.CodeTimeout, p.Code)
	require.Equal(t, []any{id, troupe.Running}, []any{e.ID, e.Status})
}

// counting counts the requests.
type counting struct {
	inner http.RoundTripper
	calls atomic.Int32
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return c.inner.RoundTrip(r)
}
