package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/collector"
	"github.com/troupe-run/troupe/test/servers"
)

// callers is a pack whose actions return the trace context that they are given.
func callers(t *testing.T) string {
	t.Helper()
	return pack(t, "pack.yaml", packYAML,
		"actions/py.yaml", "name: py\nruntime: python\nentrypoint: actions/py.py:run\n",
		"actions/py.py", "def run(params, ctx):\n    return {'parent': ctx.trace, 'state': ctx.trace_state}\n",
		"actions/js.yaml", "name: js\nruntime: node\nentrypoint: actions/js.mjs:run\n",
		"actions/js.mjs", "export const run = (params, ctx) => ({ parent: ctx.trace, state: ctx.traceState });\n",
		"actions/sh.yaml", "name: sh\nruntime: shell\n"+`command: [sh, -c, 'printf "{\"parent\":\"%s\",\"state\":\"%s\"}" "$TRACEPARENT" "$TRACESTATE"']`+"\n",
		"actions/fails.yaml", "name: fails\nruntime: shell\nmax_retries: 1\nretry: {base: 50ms}\ncommand: [sh, -c, 'exit 7']\n",
	)
}

// traceOf is a traceparent of its own for each test, and its id.
func traceOf(n int) (parent, id string) {
	id = fmt.Sprintf("%032x", 0xabcd00+n)
	return "00-" + id + "-00000000000000aa-01", id
}

// tree are the spans of a trace of one execution by their operation, each with the right parent.
func tree(t *testing.T, spans []collector.Span, parent string) map[string]collector.Span {
	t.Helper()
	all := map[string]collector.Span{}
	for _, s := range spans {
		require.NotContains(t, all, s.Operation(), "each once")
		all[s.Operation()] = s
	}
	for operation, s := range all {
		if operation == "submit" {
			require.Equal(t, parent, s.Parent)
		} else {
			require.Equal(t, all["submit"].ID, s.Parent, operation)
		}
		require.False(t, s.End.Before(s.Begin), operation)
	}
	return all
}

func operations(all map[string]collector.Span) string {
	names := make([]string, 0, len(all))
	for _, name := range []string{"submit", "place", "publish", "deliver", "claim", "run", "finish"} {
		if _, has := all[name]; has {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// finished reports whether the trace has the spans that every execution ends with.
func finished(spans []collector.Span) bool {
	return slices.ContainsFunc(spans, func(s collector.Span) bool { return s.Operation() == "finish" }) &&
		slices.ContainsFunc(spans, func(s collector.Span) bool { return s.Operation() == "submit" })
}

// TestTracing follows executions of every runtime through a node on its embedded store, as its collector sees them.
func TestTracing(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	n := start(t, options{
		packs: []string{callers(t)}, config: "tracing: {enabled: true}\n", flags: []string{"--log-level", "debug"},
		env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL(), "OTEL_EXPORTER_OTLP_HEADERS=x-test=sesame", "OTEL_SERVICE_NAME=shop"},
	})
	for i, action := range []string{"core.echo", "stage.py", "stage.js", "stage.sh"} {
		parent, id := traceOf(i)
		e := n.finish(t, n.submitIn(t, parent, "vendor=1", action))
		require.Equal(t, "completed", e.text("status"), e)
		require.Equal(t, id, e.text("trace_id"))
		require.Equal(t, "vendor=1", e.text("trace_state"))
		all := tree(t, c.Await(t, id, finished), "00000000000000aa")
		require.Contains(t, []string{"submit run finish", "submit place claim run finish"}, operations(all), "an idle worker's claim comes with the insert")
		run := all["run"]
		require.Equal(t, []string{"run " + action, "completed", "1", "n1", "shop", e.text("id")}, []string{run.Name, run.Attributes["troupe.outcome"],
			run.Attributes["troupe.attempt"], run.Resource["troupe.node"], run.Resource["service.name"], run.Attributes["messaging.message.id"]})
		if action != "core.echo" {
			require.Equal(t, "00-"+id+"-"+run.ID+"-01", e.text("result", "parent"), "the code runs below the run's span")
			require.Equal(t, "vendor=1", e.text("result", "state"))
		}
		require.Contains(t, n.prints(t, "get", e.text("id")), id)
		await(t, "the log names the trace", func() bool { return strings.Contains(n.log.String(), `"trace_id":"`+id+`"`) })
	}
	require.Contains(t, c.Calls(), "POST /v1/traces sesame")

	t.Run("a retry continues the trace", func(t *testing.T) {
		parent, id := traceOf(10)
		first := n.finish(t, n.submitIn(t, parent, "", "stage.fails"))
		second := n.finish(t, first.text("retried_as"))
		require.Equal(t, id, second.text("trace_id"))
		spans := c.Await(t, id, func(spans []collector.Span) bool {
			return len(slices.DeleteFunc(slices.Clone(spans), func(s collector.Span) bool { return s.Operation() != "finish" })) == 2
		})
		var runs []string
		for _, s := range spans {
			if s.Operation() == "run" {
				require.True(t, s.Failed)
				runs = append(runs, s.Attributes["messaging.message.id"]+" "+s.Attributes["error.type"]+" "+s.Attributes["troupe.original_execution"])
			}
		}
		require.ElementsMatch(t, []string{first.text("id") + " exit_status ", second.text("id") + " exit_status " + first.text("id")}, runs)
	})
	t.Run("what has no trace begins one", func(t *testing.T) {
		e := n.runs(t, "stage.sh", nil)
		id := e.text("trace_id")
		require.Len(t, id, 32)
		all := tree(t, c.Await(t, id, finished), "")
		require.Equal(t, "00-"+id+"-"+all["run"].ID+"-01", e.text("result", "parent"))
	})
	t.Run("what is not sampled stays as it is", func(t *testing.T) {
		parent, id := traceOf(11)
		parent = strings.TrimSuffix(parent, "1") + "0"
		e := n.finish(t, n.submitIn(t, parent, "", "stage.sh"))
		require.Equal(t, parent, e.text("result", "parent"))
		other := n.runs(t, "stage.sh", nil) // its spans come after any of the other would
		c.Await(t, other.text("trace_id"), finished)
		require.Empty(t, c.Trace(id))
	})
	t.Run("a batch and a stream", func(t *testing.T) {
		own, ownID := traceOf(12)
		batch := fmt.Sprintf(`{"executions":[{"action_ref":"core.echo","trace":%q},{"action_ref":"core.echo"}]}`, own)
		status, answer := n.call(t, "POST", "/api/v1/executions/batch", batch)
		require.Equal(t, http.StatusCreated, status, answer)
		tree(t, c.Await(t, ownID, finished), "00000000000000aa")
		e := n.finish(t, answer.list("executions")[1].text("id"))
		tree(t, c.Await(t, e.text("trace_id"), finished), "")
	})
	t.Run("it goes on after a restart", func(t *testing.T) {
		parent, id := traceOf(13)
		e := n.submit(t, "stage.sh", nil, object{"trace": parent, "run_at": time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339Nano)})
		require.NoError(t, n.stop(), "what waits for the export is exported")
		require.NotEmpty(t, c.Trace(id))
		n = n.again(t)
		n.finish(t, e.text("id"))
		all := tree(t, c.Await(t, id, finished), "00000000000000aa")
		require.Equal(t, "submit place claim run finish", operations(all))
		require.NotEqual(t, all["submit"].Resource["service.instance.id"], all["run"].Resource["service.instance.id"])
		require.GreaterOrEqual(t, all["place"].Begin.Sub(all["submit"].Begin), time.Second, "it was not due before")
	})
}

// submitIn submits with the headers of a trace, and returns the execution's id.
func (n *node) submitIn(t *testing.T, parent, state, action string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", n.url+"/api/v1/executions", strings.NewReader(`{"action_ref":"`+action+`"}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("traceparent", parent)
	if state != "" {
		r.Header.Set("tracestate", state)
	}
	answer, err := n.client.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	require.Equal(t, http.StatusCreated, answer.StatusCode)
	var e object
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&e))
	return e.text("id")
}

// TestTracingWithServers follows executions through Postgres and RabbitMQ, submitted by HTTP and by RabbitMQ.
func TestTracingWithServers(t *testing.T) {
	t.Parallel()
	c, v := collector.Start(t), newVenue(t)
	n := v.start(t, "n1", "tracing: {enabled: true, endpoint: '"+c.URL()+"'}\n", callers(t))
	whole := func(t *testing.T, id, action, way string) {
		all := tree(t, c.Await(t, id, finished), "00000000000000aa")
		require.Equal(t, "submit place publish deliver claim run finish", operations(all))
		require.Equal(t, way, all["submit"].Attributes["troupe.submitted_by"])
		require.Equal(t, "run "+action, all["run"].Name)
		for i, step := range []string{"place", "publish", "deliver", "claim", "run", "finish"} {
			if i > 0 { // clocks of the store and the node differ by little
				require.WithinRange(t, all[step].Begin, all["place"].Begin.Add(-time.Second), all["finish"].End.Add(time.Second), step)
			}
		}
	}
	parent, id := traceOf(20)
	e := n.finish(t, n.submitIn(t, parent, "vendor=1", "stage.py"))
	require.Equal(t, "vendor=1", e.text("result", "state"))
	whole(t, id, "stage.py", "api")

	parent, id = traceOf(21)
	body := fmt.Sprintf(`{"action_ref":"stage.js","trace":%q}`, parent+" a=1")
	require.NoError(t, servers.Publish(t.Context(), v.broker, v.prefix+".requests", 1, []byte(body)))
	whole(t, id, "stage.js", "amqp")

	// Another node takes the execution over, and the trace with it.
	parent, id = traceOf(22)
	e = n.submit(t, "stage.sh", nil, object{"trace": parent, "run_at": time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339Nano)})
	require.NoError(t, n.stop())
	other := v.start(t, "n2", "tracing: {enabled: true, endpoint: '"+c.URL()+"'}\n", callers(t))
	other.finish(t, e.text("id"))
	all := tree(t, c.Await(t, id, finished), "00000000000000aa")
	require.Equal(t, []string{"n1", "n2", "n2"}, []string{all["submit"].Resource["troupe.node"], all["run"].Resource["troupe.node"], all["finish"].Resource["troupe.node"]})
}

// TestTracingOnPostgresAlone follows executions that one node places and another one runs, without RabbitMQ, submitted by HTTP and by SQL.
func TestTracingOnPostgresAlone(t *testing.T) {
	t.Parallel()
	c, v := collector.Start(t), newVenue(t)
	begin := func(name string) *node {
		return start(t, options{packs: []string{callers(t)}, config: "tracing: {enabled: true, endpoint: '" + c.URL() + "'}\n", flags: []string{"--name", name, "--store", v.database}})
	}
	n1, n2 := begin("n1"), begin("n2")
	n1.prints(t, "cordon", "node", "n1", "--reason", "its workers take nothing")
	apart := func(id, way string) {
		all := tree(t, c.Await(t, id, finished), "00000000000000aa")
		require.Equal(t, "submit place claim run finish", operations(all), "nothing is published, and the claim comes from another node")
		require.Equal(t, way, all["submit"].Attributes["troupe.submitted_by"])
		require.Equal(t, "n2", all["run"].Resource["troupe.node"])
		require.Equal(t, "n2", all["finish"].Resource["troupe.node"])
	}
	parent, id := traceOf(25)
	e := n1.finish(t, n1.submitIn(t, parent, "vendor=1", "stage.py"))
	require.Equal(t, "vendor=1", e.text("result", "state"))
	apart(id, "api")

	parent, id = traceOf(26)
	require.NoError(t, servers.Execute(v.database, "INSERT INTO submission (action, trace) VALUES ('stage.sh', '"+parent+"')"))
	apart(id, "sql")
	require.NoError(t, n2.stop())
}

// mortals is a pack whose actions end with their worker, at once or once it is killed.
func mortals(t *testing.T) string {
	t.Helper()
	action := func(name, more string) string {
		return "name: " + name + "\nruntime: python\nentrypoint: actions/mortal.py:" + name + "\n" + more
	}
	return pack(t, "pack.yaml", packYAML,
		"actions/dies.yaml", action("dies", ""), "actions/again.yaml", action("again", "idempotent: true\n"),
		"actions/waits.yaml", action("waits", ""), "actions/moves.yaml", action("moves", "idempotent: true\n"),
		"actions/mortal.py", "import os, signal, time\n"+
			"def dies(params, ctx):\n    os.kill(os.getpid(), signal.SIGKILL)\n"+
			"def again(params, ctx):\n    return ctx.attempt if ctx.attempt > 1 else dies(params, ctx)\n"+
			"def waits(params, ctx):\n    time.sleep(600)\n"+
			"def moves(params, ctx):\n    return ctx.attempt if ctx.attempt > 1 else waits(params, ctx)\n")
}

// ends are the spans of the ends of a trace's runs, in the order of their ends, once there are so many.
func ends(t *testing.T, c *collector.Collector, trace string, count int) []string {
	t.Helper()
	var told []string
	c.Await(t, trace, func(spans []collector.Span) bool {
		told = nil
		slices.SortFunc(spans, func(a, b collector.Span) int { return a.End.Compare(b.End) })
		for _, s := range spans {
			switch a := s.Attributes; s.Operation() {
			case "run", "finish":
				told = append(told, strings.TrimSpace(s.Operation()+" "+a["troupe.attempt"]+" "+s.Resource["troupe.node"]+" "+a["troupe.outcome"]+a["troupe.status"]+" "+a["error.type"]))
			}
		}
		return len(told) >= count
	})
	return told
}

// TestTracingOfLostRuns holds that a run whose worker is killed has its end in the trace, and one that is placed again is not called abandoned.
func TestTracingOfLostRuns(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	n := start(t, options{packs: []string{mortals(t)}, config: "tracing: {enabled: true, endpoint: '" + c.URL() + "'}\n"})

	parent, id := traceOf(40)
	n.finish(t, n.submitIn(t, parent, "", "stage.dies"))
	require.Equal(t, []string{"run 1 n1 abandoned worker_lost", "finish 1 n1 abandoned"}, ends(t, c, id, 2))

	parent, id = traceOf(41)
	e := n.finish(t, n.submitIn(t, parent, "", "stage.again"))
	require.Equal(t, "completed", e.text("status"))
	require.Equal(t, []string{"run 1 n1 rescued worker_lost", "finish 1 n1 requested", "run 2 n1 completed", "finish 2 n1 completed"}, ends(t, c, id, 4))

	parent, id = traceOf(42)
	waits := n.submitIn(t, parent, "", "stage.waits")
	worker := n.stands(t, waits, "running").text("worker")
	n.prints(t, "worker", "kill", worker)
	status := n.finish(t, waits).text("status")
	code := n.get(t, "/api/v1/executions/"+waits).text("error", "code")
	require.Equal(t, []string{"run 1 n1 " + status + " " + code, "finish 1 n1 " + status}, ends(t, c, id, 2))
}

// TestTracingOfALostNode holds that another node has the end of the runs of one that is killed in their traces.
func TestTracingOfALostNode(t *testing.T) {
	t.Parallel()
	c, v := collector.Start(t), newVenue(t)
	folder := mortals(t)
	begin := func(name string) *node {
		return start(t, options{packs: []string{folder}, config: "tracing: {enabled: true, endpoint: '" + c.URL() + "'}\n", flags: []string{"--name", name, "--store", v.database}})
	}
	n1, n2 := begin("n1"), begin("n2")
	n1.prints(t, "cordon", "node", "n1", "--reason", "its workers take nothing")
	lostIn, lost := traceOf(43)
	movedIn, moved := traceOf(44)
	one, two := n1.submitIn(t, lostIn, "", "stage.waits"), n1.submitIn(t, movedIn, "", "stage.moves")
	n1.stands(t, one, "running")
	n1.stands(t, two, "running")
	n2.kill()
	require.Equal(t, "abandoned", n1.finish(t, one).text("status"))
	n1.prints(t, "uncordon", "node", "n1")
	require.Equal(t, "completed", n1.finish(t, two).text("status"))
	require.Equal(t, []string{"finish 1 n1 abandoned worker_lost"}, ends(t, c, lost, 1))
	require.Equal(t, []string{"finish 1 n1 requested worker_lost", "run 2 n1 completed", "finish 2 n1 completed"}, ends(t, c, moved, 3))
	spans := c.Trace(lost)
	end := spans[slices.IndexFunc(spans, func(s collector.Span) bool { return s.Operation() == "finish" })]
	require.Regexp(t, "^n2/.*python/[0-9]+$", end.Attributes["troupe.worker.id"])
	require.True(t, end.Failed)
}

// TestTracingOff holds that a node which is not told to trace calls no collector and gives nothing a trace.
func TestTracingOff(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	for name, env := range map[string][]string{
		"by default":                  {"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL()},
		"by OpenTelemetry's variable": {"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL(), "TROUPE_TRACING_ENABLED=true", "OTEL_SDK_DISABLED=true"},
	} {
		n := start(t, options{packs: []string{callers(t)}, env: env})
		e := n.runs(t, "stage.py", nil)
		require.NotContains(t, e, "trace", name)
		require.NotContains(t, e, "trace_id", name)
		require.Nil(t, e["result"].(map[string]any)["parent"])
		parent, _ := traceOf(30)
		require.Equal(t, parent, n.finish(t, n.submitIn(t, parent, "", "stage.sh")).text("result", "parent"), "a caller's trace goes on all the same")
		require.NoError(t, n.stop())
		require.NotContains(t, n.log.String(), "span")
	}
	require.Empty(t, c.Calls())
}

// TestTracingWithoutACollector holds that a collector that is away costs no execution and one line of the log.
func TestTracingWithoutACollector(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	c.Stop()
	n := start(t, options{packs: []string{callers(t)}, config: "tracing: {enabled: true, endpoint: '" + c.URL() + "', timeout: 0.5, queue: 64}\n"})
	const lines = 300
	status, answer := n.call(t, "POST", "/api/v1/executions/batch", `{"executions":[`+strings.TrimSuffix(strings.Repeat(`{"action_ref":"core.echo"},`, lines), ",")+`]}`)
	require.Equal(t, http.StatusCreated, status, answer)
	for _, e := range answer.list("executions") {
		require.Equal(t, "completed", n.finish(t, e.text("id")).text("status"))
	}
	n.logged(t, "spans not exported")
	await(t, "the metrics tell of it", func() bool {
		_, text := n.raw(t, "GET", "/metrics", nil)
		return strings.Contains(string(text), `troupe_trace_spans_total{result="failed"}`) &&
			!strings.Contains(string(text), `troupe_trace_spans_total{result="failed"} 0`) &&
			!strings.Contains(string(text), `troupe_trace_spans_total{result="dropped"} 0`)
	})
	began := time.Now()
	require.NoError(t, n.stop())
	require.Less(t, time.Since(began), 30*time.Second)
	require.Equal(t, 1, strings.Count(n.log.String(), "spans not exported"))
}
