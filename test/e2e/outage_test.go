package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// rig is a Postgres and a RabbitMQ that a test may kill.
type rig struct {
	store  *servers.PostgresServer
	broker *servers.RabbitMQServer
}

// newRig starts both servers at once.
func newRig(t *testing.T) rig {
	t.Helper()
	var r rig
	var starting sync.WaitGroup
	starting.Go(func() { r.broker = servers.PrivateRabbitMQ(t, servers.RabbitMQOptions{}) })
	r.store = servers.PrivatePostgres(t, servers.PostgresOptions{})
	starting.Wait()
	return r
}

// effects is a pack whose action writes down every run of it.
func effects(t *testing.T) (folder, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "runs")
	return pack(t, "pack.yaml", packYAML,
		"actions/run.yaml", "name: run\nruntime: shell\ncommand: [sh, -c, 'echo $TROUPE_EXECUTION >> "+file+"; sleep $TROUPE_PARAM_SECONDS']\n"), file
}

// full are the options of a node on the rig.
func (r rig) full(folder string) options {
	return options{
		packs: []string{folder}, config: sharedConfig + "node: {beat_interval: 0.3, lease: 1.5}\n", // outages last longer
		env:   []string{"TROUPE_STORE_URL=" + r.store.URL},
		flags: []string{"--broker", r.broker.URL},
	}
}

// waiting starts a node that has to wait for its servers, and returns once its API is open.
func waiting(t *testing.T, o options) *node {
	t.Helper()
	n, err := begin(t.TempDir(), o)
	require.NoError(t, err)
	t.Cleanup(n.kill)
	await(t, "the API is open", func() bool {
		for _, line := range n.log.lines() {
			if line.Message == "node is starting" {
				n.url = "http://" + line.Listen
			}
		}
		return n.url != ""
	})
	return n
}

// waitsFor polls readiness until it names exactly these servers.
func (n *node) waitsFor(t *testing.T, names ...string) {
	t.Helper()
	last := object{}
	defer func() {
		if t.Failed() {
			t.Logf("readiness was %v\n%s", last, n.log.tail(20))
		}
	}()
	await(t, fmt.Sprintf("the node waits for %v alone", names), func() bool {
		status, answer := n.call(t, "GET", "/readyz", nil)
		last = answer
		list, _ := answer["waits_for"].([]any)
		if len(list) != len(names) || (status == http.StatusOK) != (len(names) == 0) {
			return false
		}
		for _, name := range names {
			if !strings.Contains(fmt.Sprint(list), name+": ") {
				return false
			}
		}
		return true
	})
}

// ran counts how often each execution ran.
func ran(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		counts[strings.TrimSpace(line)]++
	}
	return counts
}

// crowd submits until it is told to stop. What it is not sure of it submits again, under the same key.
type crowd struct {
	stop     chan struct{}
	done     chan struct{}
	accepted []string
	refused  int
}

func (n *node) crowd(t *testing.T, name string) *crowd {
	c := &crowd{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for i := 0; ; {
			select {
			case <-c.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			status, id, err := n.offer(fmt.Sprint(name, i))
			switch {
			case err == nil && (status == http.StatusCreated || status == http.StatusOK):
				c.accepted = append(c.accepted, id)
				i++
			case err == nil && status == http.StatusServiceUnavailable:
				c.refused++
			default:
				t.Errorf("submission answered %d: %v", status, err)
				return
			}
		}
	}()
	return c
}

// offer submits one run under a key.
func (n *node) offer(key string) (status int, id string, err error) {
	body := fmt.Sprintf(`{"action_ref":"stage.run","parameters":{"seconds":0.05},"idempotency_key":%q}`, key)
	res, err := http.Post(n.url+"/api/v1/executions", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	var e struct {
		ID string `json:"id"`
	}
	err = errors.Join(json.NewDecoder(res.Body).Decode(&e), res.Body.Close())
	return res.StatusCode, e.ID, err
}

// end stops the crowd and returns what was accepted.
func (c *crowd) end() []string {
	close(c.stop)
	<-c.done
	return c.accepted
}

// quickly checks that the node answers a submission soon, whatever its servers do.
func (n *node) quickly(t *testing.T, want int) {
	t.Helper()
	began := time.Now()
	status, _, err := n.offer("quickly")
	require.NoError(t, err)
	require.Equal(t, want, status)
	require.Less(t, time.Since(began), 8*time.Second)
}

// TestOutages takes the servers of a node away and gives them back, in every order, at its start and in the middle.
func TestOutages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	folder, file := effects(t)
	require.NoError(t, r.store.Kill())
	require.NoError(t, r.broker.Kill())

	n := waiting(t, r.full(folder))
	n.waitsFor(t, "store", "broker")
	status, answer := n.call(t, "POST", "/api/v1/executions", object{"action_ref": "stage.run"})
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "store_unavailable", answer.text("error", "code"))

	require.NoError(t, r.store.Start())
	n.logged(t, "node started")
	n.waitsFor(t, "broker")
	kept := n.submit(t, "stage.run", object{"seconds": 0}).text("id") // no broker, and yet it is kept
	require.Equal(t, "broker_away", n.get(t, "/api/v1/executions/"+kept+"/why").text("reason"))
	require.NoError(t, r.broker.Start())
	require.Equal(t, "completed", n.finish(t, kept).text("status"))
	n.waitsFor(t)

	all := []string{kept}
	for round, outage := range []struct {
		name       string
		kill, back func() error
	}{
		{"store", r.store.Kill, r.store.Start},
		{"store", r.store.Freeze, r.store.Thaw},
		{"broker", r.broker.Kill, r.broker.Start},
	} {
		running := n.submit(t, "stage.run", object{"seconds": 2}).text("id")
		crowd := n.crowd(t, fmt.Sprintf("crowd-%d-", round))
		await(t, "it runs", func() bool { return n.get(t, "/api/v1/executions/"+running).text("status") == "running" })
		require.NoError(t, outage.kill())
		n.waitsFor(t, outage.name)
		if outage.name == "store" {
			n.quickly(t, http.StatusServiceUnavailable)
		}
		require.NoError(t, outage.back())
		n.waitsFor(t)
		accepted := crowd.end()
		require.NotEmpty(t, accepted)
		all = append(append(all, running), accepted...)
		require.Equal(t, outage.name == "store", crowd.refused > 0, "submissions are refused only while they cannot be kept")
	}
	all = append(all, n.submit(t, "stage.run", object{"seconds": 1}).text("id"))
	require.NoError(t, r.broker.Kill())
	require.NoError(t, r.store.Kill())
	n.waitsFor(t, "store", "broker")
	require.NoError(t, r.broker.Start())
	n.waitsFor(t, "store")
	second := waiting(t, r.full(folder))
	second.waitsFor(t, "store")
	require.NoError(t, r.store.Start())
	second.logged(t, "node started")
	second.waitsFor(t)
	n.waitsFor(t)
	all = append(all, second.submit(t, "stage.run", object{"seconds": 0}).text("id"))
	for _, id := range all {
		require.Equal(t, "completed", n.finish(t, id).text("status"))
	}
	counts := ran(t, file)
	for _, id := range all {
		require.Equal(t, 1, counts[id], "runs of execution %s", id)
	}
	require.NoError(t, second.stop())
	require.NoError(t, n.stop())
}

// TestStartWithoutServers: a node that waits ends at once when it is told to, and what no waiting mends ends it.
func TestStartWithoutServers(t *testing.T) {
	t.Parallel()
	dead := options{
		env: []string{"TROUPE_STORE_URL=postgres://troupe:hunter2@127.0.0.1:1/troupe", "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL=amqp://troupe:hunter2@127.0.0.1:1/"},
	}
	n := waiting(t, dead)
	n.waitsFor(t, "store", "broker")
	told := time.Now()
	require.NoError(t, n.stop(), n.log.String())
	require.Less(t, time.Since(told), 5*time.Second)
	require.NotContains(t, n.log.String(), "hunter2")

	missing := options{env: []string{
		"TROUPE_STORE_URL=" + servers.Postgres(t) + "_missing", "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL=amqp://troupe@127.0.0.1:1/",
	}}
	url := missing.env[0]
	if at := strings.Index(url, "?"); at > 0 { // the name stands before the query
		missing.env[0] = url[:at] + "_missing" + strings.TrimSuffix(url[at:], "_missing")
	}
	require.Contains(t, refused(t, missing), "does not exist")
}
