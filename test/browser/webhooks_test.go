package browser

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// An execution's page says what became of its webhook. One that was given up is listed, and is called again.
func TestAWebhookThatWasGivenUpIsCalledAgain(t *testing.T) {
	var mended atomic.Bool
	var calls atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1); !mended.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(receiver.Close)
	n := start(t, "--config", configured(t, `webhooks: {allow: ["http://127.0.0.1"], retry_base: 0.1, give_up_after: 1}`))
	e := submit(t, n, "core.echo", map[string]any{}, map[string]any{"webhook": map[string]any{"url": receiver.URL + "/done"}, "wait_seconds": 10})

	p := open(t, n, "/console/webhooks")
	p.shows("tbody", "was given up, after")
	p.shows("tbody", "HTTP 503")
	p.looks("webhooks")
	p.visit("/console/webhooks?to=2020-01-01T00:00:00Z")
	p.shows("main", "No webhook that was given up is of this time")
	p.visit("/console/webhooks?from=-1h")
	p.shows("tbody", "was given up, after")
	p.visit("/console/executions/" + e.ID)
	p.shows("main", receiver.URL+"/done was given up, after")
	p.looks("execution-webhook")
	mended.Store(true)
	before := calls.Load()
	p.click("Call it again")
	p.shows("main", "/done was told, after")
	require.Greater(t, calls.Load(), before)
	p.visit("/console/webhooks")
	p.shows("main", "No webhook was given up")
}

// A webhook whose receiver has not answered yet is being called.
func TestAWebhookIsBeingCalled(t *testing.T) {
	answer := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answer }))
	t.Cleanup(receiver.Close) // which waits for its calls
	release := sync.OnceFunc(func() { close(answer) })
	t.Cleanup(release)
	n := start(t, "--config", configured(t, `webhooks: {allow: ["http://127.0.0.1"]}`))
	p := open(t, n, "/console/executions") // before, for a call lasts no more than 10 s
	e := submit(t, n, "core.echo", map[string]any{}, map[string]any{"webhook": map[string]any{"url": receiver.URL + "/done"}, "wait_seconds": 10})
	p.visit("/console/executions/" + e.ID)
	p.shows("main", receiver.URL+"/done is being called.")
	release()
	p.shows("main", "/done was told, after 1 try")
}
