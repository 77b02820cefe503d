package node_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/health"
)

// fetch reads what the node's API answers to a GET.
func (k *kit) fetch(path string, into any) int {
	k.t.Helper()
	response, err := http.Get("http://" + k.Addr() + path) //nolint:noctx // of this test's own node
	require.NoError(k.t, err)
	defer response.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	require.NoError(k.t, err)
	if into != nil {
		require.NoError(k.t, json.Unmarshal(body.Bytes(), into), body.String())
	}
	return response.StatusCode
}

// Nothing says healthy or ready of workers whose heartbeats the store does not take, for nothing is placed on them.
func TestAStaleWorkerIsShownHealthyNowhere(t *testing.T) {
	t.Parallel()
	s := &staleStore{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.WrapStore, c.StalenessMultiplier, c.Listen = s.wrap, 4, "127.0.0.1:0"
	}, goPack(t, map[string]string{"noop": "on_no_worker: wait\n"}))
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
	k.until("it is ready", func() bool { return k.fetch("/readyz", nil) == http.StatusOK })
	s.deaf.Store(true)
	k.until("it is not ready", func() bool { return k.fetch("/readyz", nil) == http.StatusServiceUnavailable })

	var ready api.Readiness
	k.fetch("/readyz", &ready)
	require.Len(t, ready.WaitsFor, 1)
	require.Regexp(t, `^pool go: 2 of 2 workers have no fresh heartbeat, the last is .*s old: the store does not take them: heartbeats are not taken`, ready.WaitsFor[0])
	var list api.WorkerList
	require.Equal(t, http.StatusOK, k.fetch("/api/v1/workers", &list))
	require.Len(t, list.Workers, 2)
	for _, w := range list.Workers {
		require.Equal(t, "unhealthy", w.Grade)
		require.Equal(t, "unhealthy", w.Health)
		require.Equal(t, []string{"heartbeat_stale"}, w.GradeCauses)
		var report health.Capabilities
		require.NoError(t, json.Unmarshal(w.Report, &report))
		require.Equal(t, health.Unhealthy, report.Status)
	}
	var one api.HealthView
	require.Equal(t, http.StatusOK, k.fetch("/api/v1/workers/test/go/0/health", &one))
	require.Equal(t, "unhealthy", one.Grade)
	var pools api.PoolList
	require.Equal(t, http.StatusOK, k.fetch("/api/v1/pools", &pools))
	require.Equal(t, 2, pools.Pools[0].Stale)
	require.Zero(t, pools.Pools[0].Ready)
	shown := k.scrape()
	require.Contains(t, shown, `troupe_workers_by_grade{grade="unhealthy",pool="go"} 2`)
	require.NotRegexp(t, `troupe_workers_by_grade\{grade="healthy",pool="go"\} [1-9]`, shown)
	k.until("the tree says so", func() bool {
		raw := k.text("/debug/actors?kind=worker")
		return bytes.Contains(raw, []byte(`"its heartbeat is stale"`)) && !bytes.Contains(raw, []byte(`"grade":"healthy"`))
	})

	s.deaf.Store(false)
	k.until("it is ready again", func() bool { return k.fetch("/readyz", nil) == http.StatusOK })
	require.Equal(t, "healthy", k.worker("go", 0).Grade)
	require.Equal(t, "healthy", k.worker("go", 0).Health)
}

// text reads what the node's API answers to a GET.
func (k *kit) text(path string) []byte {
	k.t.Helper()
	var raw json.RawMessage
	require.Equal(k.t, http.StatusOK, k.fetch(path, &raw))
	return raw
}

// A router places on the workers of a node that beats seldom, by that node's own interval.
func eachNodesOwnHeartbeatIntervalCounts(t *testing.T) {
	t.Helper()
	pack := packOf(t, "t", "pools:\n  - name: lab\n    runtime: go\n    workers: 2\n", files{
		"actions/where.yaml": "name: where\nruntime: go\npool: lab\nentrypoint: t.where\n",
	})
	deaf := &staleStore{}
	r := joinAs(t, pack, func(c *node.Config) {
		c.StalenessMultiplier = 3
		c.HeartbeatInterval = 5 * time.Second
		if c.Name == "often" {
			c.HeartbeatInterval, c.WrapStore = 250*time.Millisecond, deaf.wrap
		}
	}, "often", "seldom")
	require.Equal(t, "often", r.settled(2).name, "it came first")
	k := r.nodes[0].kit
	deaf.deaf.Store(true) // so that the other's workers are all there are
	late := func() (names []string) {
		list, err := k.Workers(t.Context(), ringPool)
		require.NoError(t, err)
		for _, w := range list {
			if slices.Contains(w.GradeCauses, "heartbeat_stale") {
				names = append(names, string(w.ID))
			}
		}
		return names
	}
	own := []string{"often/t.lab/0", "often/t.lab/1"}
	k.until("its own workers are stale", func() bool { return slices.Equal(late(), own) })
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); {
		e := k.run("t.where", nil)
		require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
		require.Equal(t, "seldom", nodeOf(t, &e))
	}
	require.Equal(t, own, late())
}

// A node that drains is alive: its workers' heartbeats go on until it has ended.
func TestHeartbeatsGoOnWhileANodeDrains(t *testing.T) {
	t.Parallel()
	hold := newGate()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"hold": hold.run})(c)
		c.HeartbeatInterval = 100 * time.Millisecond
	}, goPack(t, map[string]string{"hold": ""}))
	id := k.submit("t.hold", nil)
	task := hold.next(t)
	beat := func() time.Time {
		rows, err := k.Store().ListWorkers(t.Context(), "go")
		require.NoError(t, err)
		latest := time.Time{}
		for i := range rows {
			if rows[i].State != "terminated" && rows[i].Beat.After(latest) {
				latest = rows[i].Beat
			}
		}
		return latest
	}
	stopped := make(chan error, 1)
	go func() { stopped <- k.stop() }()
	k.until("it drains", func() bool { return k.Ready(t.Context()).Draining })
	k.until("its workers are inactive", func() bool {
		rows, err := k.Store().ListWorkers(t.Context(), "go")
		require.NoError(t, err)
		return len(rows) > 0 && !rows[0].Active
	})
	from := beat()
	k.until("they beat five intervals later", func() bool { return beat().Sub(from) > 500*time.Millisecond })
	require.Equal(t, id, task.ID)
	close(hold.open)
	require.NoError(t, <-stopped)
}

// A dead letter that another node has read counts against its worker as one that its own node reads.
func TestADeadLetterReadElsewhereCountsAgainstItsWorker(t *testing.T) {
	t.Parallel()
	r := join(t, "a", "b")
	worker := func() (w view.Worker) {
		list, err := r.nodes[1].Workers(t.Context(), ringPool)
		require.NoError(t, err)
		for _, w = range list {
			if w.ID == "b/t.lab/1" {
				return w
			}
		}
		return w
	}
	r.nodes[1].until("it is ready", func() bool { return worker().State == "ready" })
	body := wire.DeadLettered{Pool: ringPool, Slot: 1, Placement: messages.Placement{Execution: messages.NewExecutionID(), Attempt: 1}}
	for range 3 {
		r.nodes[0].until("the other is reached", func() bool {
			_, err := r.nodes[0].AskPeer(t.Context(), r.nodes[1].Incarnation(), messages.Placement{}, body)
			return err == nil
		})
	}
	r.nodes[1].until("it is degraded", func() bool {
		return worker().Grade == "degraded" && slices.Contains(worker().GradeCauses, "consecutive_failures")
	})
}

// What an alert looks at is there before anything has happened, and stays.
func TestSeriesStandAtZero(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"noop": noop}), goPack(t, map[string]string{"noop": ""}))
	k.ready("go", 0, 0)
	k.ready("go", 1, 0)
	k.until("a heartbeat is written", func() bool { return contains(k.scrape(), "\ntroupe_heartbeat_age_seconds ") })
	shown := k.scrape()
	for _, line := range []string{
		`troupe_workers{pool="go",state="ready"} 2`, `troupe_workers{pool="go",state="busy"} 0`, `troupe_workers{pool="go",state="terminated"} 0`,
		`troupe_workers_by_grade{grade="healthy",pool="go"} 2`, `troupe_workers_by_grade{grade="unhealthy",pool="go"} 0`,
		`troupe_worker_queue_depth{pool="go"} 0`, `troupe_executions{pool="go",status="scheduled"} 0`,
		`troupe_executions_scheduled_oldest_seconds{pool="go"} 0`, `troupe_executions_stale_seconds{pool="go"} 0`, `troupe_pool_broken{pool="go"} 0`,
	} {
		require.Contains(t, shown, line+"\n")
	}
	require.Regexp(t, `(?m)^go_goroutines \d`, shown)
	require.Regexp(t, `(?m)^process_open_fds \d`, shown)
}
