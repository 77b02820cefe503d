package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/debug"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestWorkerTable(t *testing.T) {
	t.Parallel()
	workers := []view.Worker{
		{ID: "n1/go/0", Runtime: "go", State: "ready", Health: "healthy", Grade: "healthy", Generation: 1, Since: noon.Add(-90 * time.Second)},
		{ID: "n1/python/1", Runtime: "python", State: "degraded", Health: "unhealthy", Grade: "degraded", Generation: 12, Pid: 4711,
			Cordoned: true, Stale: true, SeenAt: noon.Add(-12 * time.Second), Since: noon.Add(-25 * time.Hour), LastError: "probe: \x1b[31mno answer\nfor 5 s " + strings.Repeat("x", 80)},
		{ID: "n1/go/1", Runtime: "go", State: "ready", Health: "unhealthy", Grade: "unhealthy", GradeCauses: []string{"heartbeat_stale"},
			Heartbeat: noon.Add(-49 * time.Second), Generation: 1, Since: noon.Add(-90 * time.Second)},
	}
	text := renderTable(workerHeads, workerRows(workers, noon, failureRoom))
	require.NotContains(t, text, "\x1b[31mno", "what a program said never steers the terminal")
	golden(t, "workers", plain(text))
}

func TestPoolTable(t *testing.T) {
	t.Parallel()
	golden(t, "pools", plain(renderTable(poolHeads, poolRows([]view.Pool{
		{Name: "go", Runtime: "go", Nodes: 2, Workers: 132, Stale: 4, Ready: 126, Busy: 2, Waiting: 1000, NotDue: 12, Placed: 40, Dispatch: "direct"},
		{Name: "shell", Runtime: "shell", Nodes: 3, Workers: 4, Ready: 4, Waiting: 100_003, NotDue: 3, More: true, Dispatch: "mixed", Routing: view.Routing{Mode: "leading", Router: "a", Followers: 2}},
		{Name: "python", Runtime: "python", Nodes: 3, Workers: 2, Ready: 2, Routing: view.Routing{Mode: "following", Router: "b"}},
		{Name: "node", Runtime: "node", Nodes: 3, Workers: 2, Ready: 2, Routing: view.Routing{Mode: "alone", Router: "c", Why: "it does not answer"}},
		{Name: "demo.models", Runtime: "python", Nodes: 1, Workers: 4, Broken: true, Reason: "no python", Restarts: 17},
	}, reasonRoom))))
}

// What is wrong with a node's reach is said, what is right with it is not.
func TestNodeTable(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/nodes": `{"nodes":[
		{"incarnation":"01a1feab-5d8f-731c-b0bb-91bf800e6bc1","name":"a","version":"1","state":"active","reach":"self"},
		{"incarnation":"01a1feab-5d86-7105-9159-7b83bc0030fb","name":"b","version":"1","state":"active","reach":"reached","why":"it answers","store_seen":true},
		{"incarnation":"01a1feab-5d6c-737c-a067-49a6845c63d9","name":"c","version":"1","state":"draining","reach":"partitioned","why":"it is cut off"}]}`})
	r := s.call(t, "nodes")
	require.Equal(t, 0, r.code, r.err)
	lines := strings.Split(r.out, "\n")
	require.Regexp(t, `^NODE .*ADDRESS +REACH +WHY$`, lines[0])
	require.Regexp(t, `^a .* self$`, lines[1])
	require.Regexp(t, `^b .* reached$`, lines[2])
	require.Regexp(t, `^c .* draining .* partitioned +it is cut off$`, lines[3])
}

// A node that does not answer is named on standard error, beside what the others said; and one node can be asked alone.
func TestUnreachedNodesAreNamed(t *testing.T) {
	t.Parallel()
	const unreached = `,"unreached":[{"node":"b","incarnation":"01a1feab-5d86-7105-9159-7b83bc0030fb","why":"node b cannot be reached"}]}`
	s := serve(t, map[string]string{
		"GET /api/v1/workers": `{"workers":[{"id":"b/go/0","state":"ready","stale":true,"seen_at":"2020-01-01T00:00:00Z"}]` + unreached,
		"GET /api/v1/pools":   `{"pools":[{"name":"go","nodes":2,"workers":8,"stale":4}]` + unreached,
	})
	for _, verb := range []string{"workers", "pools"} {
		r := s.call(t, verb, "--node", "b")
		require.Equal(t, 0, r.code, r.err)
		require.Equal(t, "troupe: node b cannot be reached; what is shown of it is from the store\n", r.err)
		require.Contains(t, r.out, "stale")
		require.Contains(t, s.asked[len(s.asked)-1], "node=b")
		require.Contains(t, s.call(t, verb, "-o", "json").out, `"unreached"`)
	}
}

func TestExecutionTable(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/executions": `{"executions":[` +
		execution(id1, "completed", `,"worker":"n1/go/3","requested_at":"2020-01-01T00:00:00Z","duration_ms":1.25`) + `,` +
		execution(id2, "failed", `,"error":{"code":"timeout","message":"ran past its deadline"}`) + `]}`})
	r := s.call(t, "list", "--status", "completed,failed", "--label", "a=b")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "n1/go/3")
	require.Contains(t, r.out, "timeout: ran past its deadline")
	require.Contains(t, s.asked[0], "label=a%3Db&limit=20&status=completed&status=failed")
	var list api.ExecutionList
	require.NoError(t, json.Unmarshal([]byte(s.call(t, "list", "-o", "json").out), &list))
	require.Len(t, list.Executions, 2)
	require.Equal(t, "none\n", serve(t, map[string]string{"GET /api/v1/executions": `{"executions":[]}`}).call(t, "list").out)
}

func TestGet(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"GET /api/v1/executions/" + id1: execution(id1, "failed",
		`,"parameters":{"a":"\u003cb\u003e"},"labels":{"b":"2","a":"1"},"started_at":"2026-01-02T12:00:00.5Z","duration_ms":1500,`+
			`"error":{"code":"exit_status","message":"exit status 3","exit":"exit status 3","stderr":"boom\n"},"retried_as":"`+id2+`","session_lost":true`)})
	golden(t, "get", s.call(t, "get", id1).out)
}

// Only what a run's worker said is called a loss.
func TestWhatIsSaidOfALoss(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status messages.Status
		err    *messages.Error
		want   string
	}{
		"it runs":                {messages.Running, nil, "unless a snapshot is restored"},
		"it has completed":       {messages.Completed, nil, "yes"},
		"its code failed":        {messages.Failed, &messages.Error{}, "yes"},
		"its process ended":      {messages.Abandoned, &messages.Error{FailedBy: messages.FailedByWorker}, "yes"},
		"its end was unstorable": {messages.Failed, &messages.Error{FailedBy: messages.FailedByRecorder}, "yes"},
		"it was cancelled":       {messages.Cancelled, &messages.Error{FailedBy: messages.FailedByWorker}, "yes"},
		"cancelled, and lost":    {messages.Cancelled, &messages.Error{FailedBy: store.FailedByRescue}, "did not say"},
		"its node ended with it": {messages.Abandoned, &messages.Error{FailedBy: "sweep"}, "did not say"},
	} {
		require.Contains(t, lossText(c.status, c.err), c.want, name)
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	var actors debug.Tree
	require.NoError(t, json.Unmarshal([]byte(`{"node":"n1","count":6,"roots":[{"id":"troupe","kind":"root","since":"2026-01-02T11:00:00Z","children":[
		{"id":"troupe/recorder","kind":"recorder","since":"2026-01-02T11:59:00Z","mailbox_depth":7},
		{"id":"troupe/pools","kind":"pools","since":"2026-01-02T11:00:00Z","children":[
			{"id":"a","kind":"worker","state":"busy","health":"healthy","since":"2026-01-02T11:59:59Z","execution":"`+id1+`"},
			{"id":"b","kind":"worker","state":"degraded","health":"unhealthy","since":"2026-01-02T11:59:58Z","why":"probe failed","restarts":2,"last_failure":"x\u001b[2J"},
			{"id":"a10","kind":"worker","since":"2026-01-02T11:59:58Z"}],"hidden":{"count":9,"states":{"ready":7,"busy":2}}}]}]}`), &actors))
	text := renderTree(actors, 2, noon)
	require.NotContains(t, text, "\x1b[2J")
	golden(t, "tree", plain(text))
}

func TestTreeOfAllNodes(t *testing.T) {
	t.Parallel()
	tree := func(node string) string {
		return `"tree":{"node":"` + node + `","at":"2026-01-02T12:00:00Z","count":2,"roots":[{"id":"troupe","kind":"root","since":"2026-01-02T11:00:00Z",` +
			`"children":[{"id":"troupe/recorder","kind":"recorder","since":"2026-01-02T11:59:00Z"}]}]}`
	}
	own := `{"node":"a","state":"active","own":true,"age_ms":0,` + tree("a") + `}`
	silent := `{"node":"b","state":"active","cordoned":true,"age_ms":4200,"error":"it does not answer",` + tree("b") + `}`
	s := serve(t, map[string]string{
		"GET /debug/actors":        `{"at":"2026-01-02T12:00:00Z","nodes":[` + own + `,` + silent + `,{"node":"c","state":"draining","error":"it listens for no peers"}]}`,
		"GET /debug/actors/troupe": `{"id":"troupe","node":"b","live":true}`,
	})
	golden(t, "tree_cluster", plain(s.call(t, "tree", "--cluster").out))
	require.Contains(t, s.call(t, "tree", "--cluster", "-o", "json").out, `"age_ms": 4200`)
	require.Contains(t, s.call(t, "tree", "troupe", "--node", "b").out, `"node": "b"`)
	for _, args := range [][]string{{"tree", "--cluster", "--node", "b"}, {"tree", "--cluster", "troupe"}} {
		r := s.call(t, args...)
		require.Equal(t, 2, r.code)
		require.Contains(t, r.err, "--cluster shows every node")
	}
	twins := debug.Forest{Nodes: []debug.Part{
		{Node: "twin", Incarnation: messages.NewIncarnation()}, {Node: "twin", Incarnation: messages.NewIncarnation()}, {Node: "a"},
	}}
	for i, line := range strings.Split(renderForest(twins, 0), "\n\n") {
		require.Equal(t, i < 2, strings.HasPrefix(line, "twin@"+twins.Nodes[i].Incarnation.Short()), line)
	}
	require.Equal(t, "/debug/actors?children=3&node=a%2Fb", (&treeAsk{app: &app{output: "table"}, node: "a/b", most: 3}).path(""))
	require.Equal(t, "/debug/actors/troupe/x%20y?node=b", (&treeAsk{app: &app{output: "json"}, node: "b", most: 3}).path("troupe/x y"))
}

// plain takes the colours away, which only a terminal gets.
func plain(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == 0x1b {
			for i < len(s) && s[i] != 'm' {
				i++
			}
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String() + "\n"
}

func TestLogsFollow(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/executions/" + id1 + "/output": `{"kind":"status","at":"2026-01-02T12:00:00Z","status":"running"}` + "\n\n" +
			`{"kind":"stdout","data":"aGkK","at":"2026-01-02T12:00:00Z"}` + "\n" + `{"kind":"stderr","data":"bm8K","at":"2026-01-02T12:00:00Z"}` + "\n" +
			`{"kind":"progress","fraction":0.5,"message":"half","at":"2026-01-02T12:00:00Z"}` + "\n" +
			`{"kind":"notice","message":"node b answers again","at":"2026-01-02T12:00:00Z"}` + "\n" + `{"kind":"chunk","chunk":{"a":1},"at":"2026-01-02T12:00:00Z"}` + "\n",
		"GET /api/v1/executions/" + id2 + "/output": `{"error":{"code":"unavailable","message":"the store is away"}}` + "\n",
	})
	r := s.call(t, "logs", "-f", id1)
	require.Equal(t, result{0, "hi\n{\"a\":1}\n", "running\nno\nprogress 50 % half\ntroupe: node b answers again\n"}, r)
	require.Equal(t, result{1, "", "troupe: the store is away (unavailable)\n"}, s.call(t, "logs", "-f", id2))
	require.Equal(t, result{0, "12:00:00.000 status   running\n12:00:00.000 stdout   hi\n12:00:00.000 stderr   no\n12:00:00.000 progress 50 % half\n" +
		"12:00:00.000 notice   node b answers again\n12:00:00.000 chunk    {\"a\":1}\n", ""}, s.call(t, "logs", "-t", id1))
	require.Equal(t, result{1, "", "troupe: the store is away (unavailable)\n"}, s.call(t, "logs", "-t", id2))
}

func TestShortTimes(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		900 * time.Nanosecond: "0µs", 1500 * time.Microsecond: "1ms", 1500 * time.Millisecond: "1.5s", 61 * time.Second: "1m01s",
		time.Hour + time.Minute: "1h01m", 72 * time.Hour: "3d",
	} {
		require.Equal(t, want, short(d))
	}
	require.Equal(t, "0µs", ago(noon.Add(time.Second), noon), "a clock ahead is no negative age")
}
