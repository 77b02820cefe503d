package node_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/servers"
)

// One row that another transaction holds delays its own execution. Submissions are answered, other executions run, and
// /readyz, the metric and the log name what is held.
func TestAHeldRowStopsNothingElse(t *testing.T) {
	t.Parallel()
	url, g := database(t), newGate()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop, "held": g.run})(c)
		paired(c, url)
		c.Listen = "127.0.0.1:0"
	}, goPack(t, map[string]string{"noop": "", "held": ""}))
	held := k.submit("t.held", nil)
	g.next(t)
	k.becomes(held, messages.Running)
	release := servers.Hold(t, url, "SELECT 1 FROM execution WHERE id = '"+held.String()+"' FOR UPDATE")
	close(g.open)
	var slowest time.Duration
	end := time.Now().Add(12 * time.Second)
	var ready api.Readiness
	for n := 0; time.Now().Before(end); n++ {
		began := time.Now()
		require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
		slowest = max(slowest, time.Since(began))
	}
	require.Less(t, slowest, 8*time.Second, "no more than the first lock timeout, on a busy machine")
	k.until("/readyz names it", func() bool {
		k.fetch("/readyz", &ready)
		return strings.Contains(strings.Join(ready.Notes, "\n"), "recorder: changes of 1 executions are not committed")
	})
	require.True(t, ready.Ready, "all else goes on: %v", ready.WaitsFor)
	require.Contains(t, strings.Join(ready.Notes, "\n"), "another transaction holds a lock")
	require.Contains(t, k.log.String(), "recorder has not committed")
	_, err := k.Cancel(t.Context(), held, "test")
	require.ErrorIs(t, err, store.ErrBlocked)
	require.ErrorIs(t, err, store.ErrUnavailable, "who cancels is told to do it again")
	metrics := k.metricsText()
	require.Contains(t, metrics, "troupe_recorder_held_executions 1")
	require.NotContains(t, metrics, "troupe_recorder_uncommitted_seconds 0\n")
	release()
	require.Equal(t, messages.Completed, k.await(held).Status)
	k.until("it is over", func() bool {
		ready = api.Readiness{}
		k.fetch("/readyz", &ready)
		return !strings.Contains(strings.Join(ready.Notes, "\n"), "recorder")
	})
}

// metricsText reads /metrics.
func (k *kit) metricsText() string {
	k.t.Helper()
	request, err := http.NewRequestWithContext(k.t.Context(), http.MethodGet, "http://"+k.Addr()+"/metrics", nil)
	require.NoError(k.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(k.t, err)
	defer response.Body.Close()
	return readAll(k.t, response.Body)
}

func readAll(t *testing.T, from io.Reader) string {
	t.Helper()
	raw, err := io.ReadAll(from)
	require.NoError(t, err)
	return string(raw)
}

// moody is a store whose writes fail as it is told.
type moody struct {
	store.Store
	mu   sync.Mutex
	fail error
}

func (m *moody) wrap(s store.Store) store.Store { m.Store = s; return m }

func (m *moody) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

func (m *moody) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fail
}

func (m *moody) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	if err := m.err(); err != nil {
		return nil, err
	}
	return m.Store.Apply(ctx, changes)
}

func (m *moody) SubmitPlaced(ctx context.Context, e []messages.Execution, places []*store.Place) ([]store.Submitted, error) {
	if err := m.err(); err != nil {
		return nil, err
	}
	return m.Store.SubmitPlaced(ctx, e, places)
}

// A recorder that has committed nothing for 5 s makes the node not ready, and the log says so once.
func TestARecorderThatCommitsNothingIsNamed(t *testing.T) {
	t.Parallel()
	s := &moody{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.WrapStore, c.Listen = s.wrap, "127.0.0.1:0"
	}, goPack(t, map[string]string{"noop": ""}))
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
	k.until("it is ready", func() bool { return k.fetch("/readyz", nil) == http.StatusOK })
	s.set(fmt.Errorf("a commit that never comes: %w", store.ErrUnavailable))
	stuck := make(chan error, 1)
	go func() { // a cancel that waits for the store
		_, err := k.Cancel(t.Context(), k.submitDirect(t, s), "test")
		stuck <- err
	}()
	var ready api.Readiness
	k.until("it is not ready", func() bool {
		return k.fetch("/readyz", &ready) == http.StatusServiceUnavailable && strings.Contains(strings.Join(ready.WaitsFor, "\n"), "recorder: nothing committed for")
	})
	k.until("the log names it", func() bool { return strings.Contains(k.log.String(), "recorder has not committed") })
	s.set(nil)
	require.NoError(t, <-stuck)
	k.until("it is ready again", func() bool { return k.fetch("/readyz", nil) == http.StatusOK })
	k.until("the log says so", func() bool { return strings.Contains(k.log.String(), "recorder commits again") })
	require.Equal(t, 1, strings.Count(k.log.String(), "recorder has not committed"))
}

// submitDirect stores an execution that waits, past the node.
func (k *kit) submitDirect(t *testing.T, s *moody) messages.ExecutionID {
	e := messages.Execution{ID: messages.NewExecutionID(), Action: "t.noop", Pool: "go", RunAt: time.Now().Add(time.Hour), Parameters: []byte("{}")}
	_, err := s.Store.Submit(t.Context(), []messages.Execution{e})
	if err != nil {
		t.Error(err)
	}
	return e.ID
}

// A full disk is told in /readyz, to who submits, and in the log once; it is over when a write passes.
func TestAFullDiskIsToldOnce(t *testing.T) {
	t.Parallel()
	s := &moody{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.WrapStore, c.Listen = s.wrap, "127.0.0.1:0"
	}, goPack(t, map[string]string{"noop": ""}))
	k.until("it is ready", func() bool { return k.fetch("/readyz", nil) == http.StatusOK })
	s.set(fmt.Errorf("submit in the store: %w: free space on its disk", store.ErrFull))
	for range 200 {
		response, err := http.Post("http://"+k.Addr()+"/api/v1/executions", "application/json", strings.NewReader(`{"action_ref":"t.noop"}`)) //nolint:noctx // of this test's own node
		require.NoError(t, err)
		body := readAll(t, response.Body)
		response.Body.Close()
		require.Equal(t, http.StatusInsufficientStorage, response.StatusCode)
		require.Contains(t, body, "its disk is full")
		require.NotEmpty(t, response.Header.Get("Retry-After"))
	}
	var ready api.Readiness
	k.until("it is not ready", func() bool { return k.fetch("/readyz", &ready) == http.StatusServiceUnavailable })
	require.Contains(t, strings.Join(ready.WaitsFor, "\n"), "store: out of space on its disk since")
	require.Equal(t, 1, strings.Count(k.log.String(), "[ERROR]"), "once, not once a refusal")
	require.Equal(t, 1, strings.Count(k.log.String(), "store is out of space; nothing new is taken"))
	s.set(nil)
	k.until("a write shows that there is space", func() bool {
		_, err := k.Submit(t.Context(), []submit.Request{ask("t.noop", nil)})
		return err == nil && k.fetch("/readyz", nil) == http.StatusOK
	})
	require.Contains(t, k.log.String(), "store has space again")
}
