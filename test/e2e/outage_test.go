package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
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

// newRig prepares both servers and starts neither.
func newRig(t *testing.T) rig {
	t.Helper()
	return rig{
		servers.PrivatePostgres(t, servers.PostgresOptions{Stopped: true}),
		servers.PrivateRabbitMQ(t, servers.RabbitMQOptions{Stopped: true}),
	}
}

// effects is a pack whose action writes a line for each run.
func effects(t *testing.T) (folder, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "runs")
	return pack(t, "pack.yaml", packYAML,
		"actions/run.yaml", "name: run\nruntime: shell\ncommand: [sh, -c, 'echo $TROUPE_EXECUTION >> "+file+"; sleep $TROUPE_PARAM_SECONDS']\n"), file
}

// full are the options of a node on the rig.
func (r rig) full(folder string) options {
	return options{
		packs: []string{folder}, config: sharedConfig + "node: {beat_interval: 0.3, lease: 3}\n", // half of the outages are longer than the lease
		env:   []string{"TROUPE_STORE_URL=" + r.store.URL},
		flags: []string{"--broker", r.broker.URL},
	}
}

// waiting starts a node that must wait for its servers. It returns when the node's API is open.
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

// waitsFor waits until /readyz names exactly these servers.
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

// ran counts the runs of each execution.
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

// crowd submits until it is stopped. It repeats refused submissions with the same idempotency key.
type crowd struct {
	stop           context.CancelFunc
	done           chan struct{}
	accepted       []string
	taken, refused atomic.Int64
}

func (n *node) crowd(t *testing.T, name string) *crowd {
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{stop: cancel, done: make(chan struct{})}
	t.Cleanup(func() { c.end() }) // before the node is killed
	go func() {
		defer close(c.done)
		for i := 0; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			status, id, err := n.offer(fmt.Sprint(name, i))
			switch {
			case err == nil && (status == http.StatusCreated || status == http.StatusOK):
				c.accepted = append(c.accepted, id)
				c.taken.Add(1)
				i++
			case err == nil && status == http.StatusServiceUnavailable:
				c.refused.Add(1)
			default:
				t.Errorf("submission answered %d: %v", status, err)
				return
			}
		}
	}()
	return c
}

// offer submits one run with a key.
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

// meets waits until one more submission is answered as expected while these servers are away.
func (c *crowd) meets(t *testing.T, away []string) {
	t.Helper()
	count := &c.taken
	if slices.Contains(away, "store") {
		count = &c.refused
	}
	from := count.Load()
	await(t, fmt.Sprintf("a submission is answered while %v are away", away), func() bool { return count.Load() > from })
}

// end stops the crowd and returns the accepted executions.
func (c *crowd) end() []string {
	c.stop()
	<-c.done
	return c.accepted
}

// loss is one way to take a server away and to bring it back.
type loss struct {
	name       string
	gone, back func() error
}

// outage takes servers away in one order and brings them back in another.
type outage struct {
	gone, back []loss
	late       int // how many servers are back when a second node starts; -1: none starts
}

// outages are outages of a running node. At its start a second node finds a state that the first one did not find: only the store
// is away, only the broker is away, or both are away and the broker comes back first.
func (r rig) outages() []outage {
	store, broker := loss{"store", r.store.Kill, r.store.Start}, loss{"broker", r.broker.Kill, r.broker.Start}
	frozenStore, frozenBroker := loss{"store", r.store.Freeze, r.store.Thaw}, loss{"broker", r.broker.Freeze, r.broker.Thaw}
	return []outage{
		{[]loss{store}, []loss{store}, -1},
		{[]loss{frozenStore}, []loss{frozenStore}, -1},
		{[]loss{broker}, []loss{broker}, -1},
		{[]loss{frozenBroker}, []loss{frozenBroker}, -1},
		{[]loss{broker, store}, []loss{broker, store}, 1},
		{[]loss{broker, store}, []loss{store, broker}, 1},
		{[]loss{store, broker}, []loss{broker, store}, 0},
		{[]loss{store, broker}, []loss{store, broker}, -1},
	}
}

// without checks a node whose servers are away. It names them, accepts executions that it can store, and soon refuses the others.
// without returns the accepted ones.
func (n *node) without(t *testing.T, away ...string) (kept []string) {
	t.Helper()
	n.waitsFor(t, away...)
	if slices.Contains(away, "store") {
		began := time.Now()
		status, answer := n.call(t, "POST", "/api/v1/executions", object{"action_ref": "stage.run", "parameters": object{"seconds": 0}})
		require.Equal(t, http.StatusServiceUnavailable, status, "%v", answer)
		require.Equal(t, "store_unavailable", answer.text("error", "code"))
		require.Less(t, time.Since(began), 8*time.Second)
		return nil
	}
	n.logged(t, "node started")
	id := n.submit(t, "stage.run", object{"seconds": 0}).text("id") // it is stored without a broker
	await(t, "it waits for the broker", func() bool {
		return n.get(t, "/api/v1/executions/"+id+"/why").text("reason") == "broker_away"
	})
	return []string{id}
}

// another starts a second node on the same servers. It must wait for them.
func (n *node) another(t *testing.T, name string) *node {
	t.Helper()
	o := n.options
	o.data, o.flags = "", append(slices.Clone(n.flags), "--name", name)
	return waiting(t, o)
}

// goesThrough makes an outage while work runs and is submitted. It returns the accepted executions, all of which must complete.
// name is the name of the second node, if there is one.
func (n *node) goesThrough(t *testing.T, o outage, name string) (accepted []string) {
	t.Helper()
	running := n.submit(t, "stage.run", object{"seconds": 2}).text("id")
	crowd := n.crowd(t, name+"-")
	n.stands(t, running, "running")
	accepted = append(accepted, running)
	var away []string
	crowd.meets(t, away)
	for _, l := range o.gone {
		require.NoError(t, l.gone())
		away = append(away, l.name)
		accepted = append(accepted, n.without(t, away...)...)
		crowd.meets(t, away)
	}
	nodes := []*node{n}
	for i, l := range o.back {
		if i == o.late {
			late := n.another(t, name)
			accepted = append(accepted, late.without(t, away...)...)
			nodes = append(nodes, late)
		}
		require.NoError(t, l.back())
		away = slices.DeleteFunc(away, func(name string) bool { return name == l.name })
		for _, n := range nodes {
			n.waitsFor(t, away...)
		}
		crowd.meets(t, away)
	}
	accepted = append(accepted, crowd.end()...)
	if !slices.ContainsFunc(o.gone, func(l loss) bool { return l.name == "store" }) {
		require.Zero(t, crowd.refused.Load(), "submissions are refused only while they cannot be kept")
	}
	for _, n := range nodes {
		accepted = append(accepted, n.submit(t, "stage.run", object{"seconds": 0}).text("id"))
	}
	for _, id := range accepted {
		require.Equal(t, "completed", n.finish(t, id).text("status"))
	}
	for _, late := range nodes[1:] {
		require.NoError(t, late.stop())
		n.misses(t, name) // otherwise, if it then loses the store, it concludes that it is cut off from a peer
	}
	return accepted
}

// misses waits until the node knows that another node has ended.
func (n *node) misses(t *testing.T, name string) {
	t.Helper()
	down := regexp.MustCompile(`"node is down".*"node":"` + name + `"`)
	await(t, "node "+name+" is known to be down", func() bool { return down.MatchString(n.log.String()) })
}

// TestOutages takes a node's servers away and brings them back, in every order, at its start and while it runs.
func TestOutages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	folder, file := effects(t)
	n := waiting(t, r.full(folder))
	n.without(t, "store", "broker")
	require.NoError(t, r.store.Start())
	all := n.without(t, "broker")
	require.NoError(t, r.broker.Start())
	require.Equal(t, "completed", n.finish(t, all[0]).text("status"))
	n.waitsFor(t)

	for i, o := range r.outages() {
		all = append(all, n.goesThrough(t, o, fmt.Sprint("late", i))...)
	}
	counts := ran(t, file)
	for _, id := range all {
		require.Equal(t, 1, counts[id], "runs of execution %s", id)
	}
	require.NoError(t, n.stop())
}

// TestStartWithoutServers: a node that waits for its servers stops at once when it is told to. It exits with an error if waiting
// cannot help.
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
	if at := strings.Index(url, "?"); at > 0 { // the database's name comes before the query
		missing.env[0] = url[:at] + "_missing" + strings.TrimSuffix(url[at:], "_missing")
	}
	require.Contains(t, refused(t, missing), "does not exist")
}
