package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSubmitFromTheShell passes parameters in each form that the command line accepts.
func TestSubmitFromTheShell(t *testing.T) {
	t.Parallel()
	n := shared(t)
	require.Equal(t, result{0, `{"message":"hi"}` + "\n", ""}, n.troupe(t, "submit", "core.echo", "message=hi", "--wait"))
	r := n.troupeWith(t, `{"n":12345678901234567890,"a":"file"}`, "submit", "core.echo", "--params", "-", "a=over", "list:=[1,{\"b\":null}]", "--wait")
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, `{"a":"over","list":[1,{"b":null}],"n":12345678901234567890}`+"\n", r.out)
	file := filepath.Join(t.TempDir(), "params.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"from":"a file"}`), 0o644))
	require.Equal(t, `{"from":"a file"}`, n.prints(t, "submit", "core.echo", "--params", file, "--wait"))

	r = n.troupe(t, "submit", "core.fail", "message=as asked", "code=bad_luck", "--wait")
	require.Equal(t, 1, r.code)
	require.Empty(t, r.out)
	require.Regexp(t, `^execution [0-9a-f-]{36} failed: bad_luck: as asked\nno retry follows: max_retries is 0; set it on the action or the submission\n$`, r.err)

	id := n.prints(t, "submit", "core.echo", "later=1", "--at", "1h", "--label", "team=a", "--priority", "9")
	e := n.get(t, "/api/v1/executions/"+id)
	require.Equal(t, "requested", e.text("status"))
	require.Equal(t, "9", e.text("priority"))
	require.Equal(t, "a", e.text("labels", "team"))
	require.Equal(t, id+" cancelled", n.prints(t, "cancel", id))
	r = n.troupe(t, "wait", id)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "cancelled")
	require.Regexp(t, `"status": "cancelled"`, n.prints(t, "get", id, "-o", "json"))
	r = n.troupe(t, "submit", "core.echo", "--priority", "11")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "priority must be 0 to 9, got 11")
}

// TestIdempotencyKey: the same request gets the same execution, and another request with the key gets a conflict.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	n := shared(t)
	first := n.prints(t, "submit", "core.echo", "a=1", "--key", t.Name())
	require.Equal(t, first, n.prints(t, "submit", "core.echo", "a=1", "--key", t.Name()))
	r := n.troupe(t, "submit", "core.echo", "a=2", "--key", t.Name())
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "idempotency key "+t.Name()+" was used with a different request by execution "+first)
}

// TestBatchFromTheShell submits a batch with one execution a line.
func TestBatchFromTheShell(t *testing.T) {
	t.Parallel()
	n := shared(t)
	r := n.troupeWith(t, "{\"i\":1}\n{\"i\":2}\n\n{\"i\":3}\n", "submit", "core.echo", "--batch", "-", "--label", "batch=shell")
	require.Equal(t, 0, r.code, r.err)
	ids := strings.Fields(r.out)
	require.Len(t, ids, 3)
	require.Equal(t, "2", n.finish(t, ids[1]).text("result", "i"))
	r = n.troupeWith(t, "{\"seconds\":0}\n{\"seconds\":\"x\"}\n", "submit", "core.sleep", "--batch", "-")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "standard input:2: action core.sleep: parameters: /seconds")
	require.Contains(t, r.err, "1 of 2 lines were refused")
	require.Len(t, strings.Fields(r.out), 1, "the other line is submitted")
	r = n.troupeWith(t, "{\"message\":\"a\"}\n{}\n", "submit", "core.fail", "--batch", "-", "--wait")
	require.Equal(t, 1, r.code)
	require.Equal(t, "STATUS  COUNT\nfailed  2\n", r.out)
	const many = 5000
	file := filepath.Join(t.TempDir(), "many.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("{}\n", many)), 0o600))
	r = n.troupe(t, "submit", "core.noop", "--batch", file, "--wait")
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, "STATUS     COUNT\ncompleted  5000\n", r.out)
}

// TestLogsLive follows a run from the shell. Its output is shown while it runs, and again afterwards.
func TestLogsLive(t *testing.T) {
	t.Parallel()
	n := shared(t)
	id := n.prints(t, "submit", "theatre.act", "lines:=40", "pause:=0.25")
	cmd := exec.Command(binary, "logs", "-f", id)
	cmd.Env = []string{"TROUPE_SERVER=" + n.url, "HOME=" + t.TempDir()}
	var out, errs logBook
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	await(t, "the first line is seen", func() bool { return strings.Contains(out.String(), "line 0\n") })
	require.NotContains(t, out.String(), "line 39\n", "it is seen while the run goes on")
	require.NoError(t, cmd.Wait(), errs.String())
	require.Contains(t, out.String(), "line 39\n")
	require.Contains(t, out.String(), `{"line":39}`)
	require.Contains(t, errs.String(), "progress 98 % line 39")
	require.Contains(t, errs.String(), "completed")
	want := ""
	for i := range 40 {
		want += fmt.Sprintf("line %d\n", i)
	}
	require.Equal(t, want, n.troupe(t, "logs", id).out)
	again := n.troupe(t, "logs", "-f", id)
	require.Equal(t, strings.ReplaceAll(errs.String(), "running\n", ""), again.err, "after its end it is as it was")
	require.Equal(t, out.String(), again.out)
	timed := n.troupe(t, "logs", "-t", id)
	require.Regexp(t, `(?m)^\d\d:\d\d:\d\d\.\d{3} stdout   line 7$`, timed.out)
	require.Regexp(t, `(?m)^\d\d:\d\d:\d\d\.\d{3} progress 98 % line 39$`, timed.out)

	id = n.prints(t, "submit", "theatre.prompt", "word=now", "status:=3")
	n.finish(t, id)
	require.Equal(t, result{0, "prompted now\n", "whispered\n"}, n.troupe(t, "logs", id))
	r := n.troupe(t, "logs", "-f", id)
	require.Contains(t, r.out, "prompted now\n")
	require.Contains(t, r.err, "whispered\n")
}

// TestRetryFromTheShell retries by hand and by policy. One view shows the whole chain.
func TestRetryFromTheShell(t *testing.T) {
	t.Parallel()
	n := shared(t)
	r := n.troupe(t, "submit", "theatre.prompt", "status:=75", "--max-retries", "2", "--wait")
	require.Equal(t, 1, r.code)
	require.Equal(t, 2, strings.Count(r.err, "; it is retried as "), r.err)
	id := strings.Fields(r.err)[1]
	chain := n.get(t, "/api/v1/executions/"+id+"/chain").list("executions")
	require.Len(t, chain, 3)
	require.Equal(t, "2", chain[2].text("retry_count"))
	require.Equal(t, id, chain[2].text("original_execution"))
	r = n.troupe(t, "retry", id)
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, chain[1].text("id"), "an execution has one retry, whoever asks")
	again := strings.Fields(n.prints(t, "retry", chain[2].text("id")))[0]
	require.Equal(t, "manual_retry", n.finish(t, again).text("retry_reason"))
	ok := n.prints(t, "submit", "core.noop")
	n.finish(t, ok)
	r = n.troupe(t, "retry", ok)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, ok)
}

// TestTables reads every view as a table and as JSON.
func TestTables(t *testing.T) {
	t.Parallel()
	n := shared(t)
	id := n.runs(t, "theatre.remember", object{"line": "a"}, object{"session": t.Name()}).text("id")
	for _, c := range []struct {
		args []string
		want string // a regular expression that the table must match
	}{
		{[]string{"list"}, `(?s)^ID +ACTION +STATUS +ATTEMPT +WORKER +AGE +TOOK +ERROR\n`},
		{[]string{"get", id}, `(?s)FIELD +VALUE.*status +completed.*session +TestTables`},
		{[]string{"workers", "--pool", "theatre.keeper"}, `(?s)^WORKER .*n1/theatre.keeper/0 +python +`},
		{[]string{"workers", "n1/theatre.keeper/0"}, `(?s)GEN +CHANGE +REASON.*initializing → ready +init_complete`},
		{[]string{"pools"}, `(?m)^theatre.keeper +python +ok +1 +2`},
		{[]string{"nodes"}, `(?m)^n1 +[0-9a-f-]{36} +active`},
		{[]string{"sessions"}, `(?m)^theatre.keeper +TestTables +n1/theatre.keeper/[01] +1`},
		{[]string{"actions"}, `(?m)^theatre.prompt +1.0.0 +shell +shell +sh -c`},
		{[]string{"dead-letters"}, `^none`},
		{[]string{"dead-letters", "list", "-n", "5"}, `^none`},
		{[]string{"tree", "--children", "5"}, `(?s)troupe .*troupe/pools .*more.*\(--children 0 shows them\)`},
		{[]string{"tree", "--cluster"}, `(?s)^n1 active \d+ actors\n.*troupe/pools/theatre.keeper/0`},
		{[]string{"tree", "--node", "n1", "--children", "0"}, `(?s)^n1 active \d+ actors\n.*troupe/pools/theatre.keeper/1`},
		{[]string{"tree", "troupe/recorder", "--node", "n1"}, `"node": "n1"`},
		{[]string{"config", "--listen", "127.0.0.1:9"}, `(?m)^listen +127.0.0.1:9 +flag --listen`},
		{[]string{"why", id}, `^completed: it has ended`},
		{[]string{"findings"}, `(?s)^(No rule finds anything wrong at |(CRITICAL|WARNING) |The node has just started)`},
		{[]string{"overview"}, `(?s)waiting \d+, placed \d+, running \d+, workers busy \d+ of \d+\n.*\nPOOL +STATE +WORKERS `},
		{[]string{"errors", "--by", "action", "--since", "1h"}, `^(COUNT +FIRST |none)`},
		{[]string{"whoami"}, `(?s)^NAME +BY +SCOPES .*\nlocal +local +\S*admin\S* +n1 +`},
		{[]string{"series", "--by", "pool", "--metric", "submitted"}, `^(FROM +POOL +SUBMITTED\n|none)`},
		{[]string{"list", "--pool", "theatre.keeper", "--not-status", "failed", "--not-session", t.Name()}, `^(ID +ACTION|none)`},
		{[]string{"version"}, `^troupe `},
	} {
		require.Regexp(t, c.want, n.prints(t, c.args...), "troupe %v", c.args)
		raw := n.prints(t, append(c.args, "-o", "json")...)
		require.True(t, json.Valid([]byte(raw)), "troupe %v -o json: %s", c.args, raw)
	}
	require.Regexp(t, `(?m)^worker.heartbeat_interval +1 +`, execute(t, "", []string{"TROUPE_WORKER_HEARTBEAT_INTERVAL=1"}, "config").out)
	require.Contains(t, execute(t, "", []string{"TROUPE_WORKER_HEARTBEAT_INTERVAL=1"}, "config").out, "TROUPE_WORKER_HEARTBEAT_INTERVAL")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		require.Contains(t, execute(t, "", nil, "completion", shell).out, "troupe")
	}
	require.Contains(t, n.prints(t, "__complete", "wor"), "workers")
	r := execute(t, "", nil, "doctor", "--listen", "127.0.0.1:0")
	require.Equal(t, 0, r.code, r.out+r.err)
	require.Regexp(t, `(?m)^store +ok`, r.out)
	require.Regexp(t, `(?m)^containment +ok +.*end by .*limits.memory by `, r.out)
}

// TestChaosAndBenchFromTheShell runs `troupe chaos` and `troupe bench`.
func TestChaosAndBenchFromTheShell(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig})
	var report struct {
		Seed  uint64
		Kills int
	}
	text := n.prints(t, "chaos", "--kills", "3", "--every", "50ms", "--pool", "theatre.talker", "--seed", "7", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(text), &report), text)
	require.Equal(t, 3, report.Kills)
	require.EqualValues(t, 7, report.Seed)
	restarts := 0.0
	for _, w := range n.get(t, "/api/v1/workers?pool=theatre.talker").list("workers") {
		require.Equal(t, "ready", w.text("state"))
		restarts += w["generation"].(float64) - 1
	}
	require.GreaterOrEqual(t, restarts, 1.0, "a kill of one that is still on its way back makes no further generation")
	require.LessOrEqual(t, restarts, 3.0)
	require.Equal(t, "n1", n.get(t, "/api/v1/nodes/n1").text("name"))
	require.NotEmpty(t, n.prints(t, "bench", "-n", "200", "--batch", "100"))
	require.Len(t, n.get(t, "/api/v1/executions?action=core.noop&status=completed&limit=1000").list("executions"), 200)
	require.NoError(t, n.stop())
}

// TestSteerFromTheShell kills, cordons, probes and uncordons a worker and its pool.
func TestSteerFromTheShell(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig})
	before := n.get(t, "/api/v1/workers/n1/theatre.talker/0")
	require.Contains(t, n.prints(t, "worker", "probe", "n1/theatre.talker/0"), "healthy")
	require.Contains(t, n.prints(t, "worker", "kill", "n1/theatre.talker/0"), "n1/theatre.talker/0")
	await(t, "the killed worker is back", func() bool {
		w := n.get(t, "/api/v1/workers/n1/theatre.talker/0")
		return w.text("state") == "ready" && w.text("pid") != before.text("pid")
	})
	await(t, "the history tells of the killed generation", func() bool {
		return regexp.MustCompile(`(?s)1 +terminating → terminated.*1 +ready → terminating`).MatchString(n.prints(t, "workers", "n1/theatre.talker/0"))
	})

	for _, c := range [][]string{{"worker", "n1/theatre.talker/0"}, {"pool", "theatre.talker"}, {"node", "n1"}} {
		n.prints(t, "cordon", c[0], c[1], "--reason", "the disk is full")
		id := n.prints(t, "submit", "theatre.talker")
		await(t, "it says that it waits for the cordon of "+c[0], func() bool {
			return strings.Contains(n.prints(t, "why", id), "cordoned")
		})
		require.Contains(t, n.prints(t, map[string]string{"worker": "workers", "pool": "pools", "node": "nodes"}[c[0]]), "cordoned")
		n.prints(t, "uncordon", c[0], c[1])
		require.Equal(t, "completed", n.finish(t, id).text("status"))
	}
	await(t, "the journal has the reasons", func() bool {
		return strings.Count(n.prints(t, "history", "--kinds", "operator"), "the disk is full, by local") == 3
	})
	for _, args := range [][]string{
		{"worker", "kill", "n1/theatre.talker/9"}, {"cordon", "pool", "nope"}, {"drain", "nope"}, {"worker", "probe", "n9/go/0"},
	} {
		r := n.troupe(t, args...)
		require.Equal(t, 1, r.code, "%v", args)
		require.Contains(t, r.err, args[len(args)-1])
	}
	// A drain is an orderly shutdown.
	id := n.prints(t, "submit", "theatre.pause", "seconds:=5")
	await(t, "it runs", func() bool { return n.get(t, "/api/v1/executions/"+id).text("status") == "running" })
	require.Contains(t, n.prints(t, "drain", "n1"), "node n1 drains")
	require.NoError(t, n.ended(), n.log.tail(20))
	n = n.again(t)
	require.Equal(t, "completed", n.get(t, "/api/v1/executions/"+id).text("status"))
	require.NoError(t, n.stop())
}

// TestANodeIsKilledUnderAWaitingClient kills the node while a client waits. The client says how to continue waiting.
func TestANodeIsKilledUnderAWaitingClient(t *testing.T) {
	t.Parallel()
	n := start(t, options{})
	ended := make(chan result, 1)
	go func() { ended <- n.troupe(t, "submit", "core.sleep", "seconds:=10", "--wait") }()
	await(t, "it has run for a while", func() bool {
		for _, e := range n.get(t, "/api/v1/executions?status=running").list("executions") {
			started, err := time.Parse(time.RFC3339Nano, e.text("started_at"))
			return err == nil && time.Since(started) > time.Second
		}
		return false
	})
	n.kill()
	r := <-ended
	require.Equal(t, 1, r.code)
	require.Regexp(t, "execution [0-9a-f-]{36} was submitted; `troupe wait [0-9a-f-]{36}` waits for its end\n", r.err)
	require.Contains(t, r.err, "no node answers at")
	n = n.again(t)
	require.Equal(t, `{"slept":10}`, n.prints(t, "wait", strings.Fields(r.err)[1]))
	require.NoError(t, n.stop())
}

// TestInputMustBeAnObject: the error names the input and what is wrong with it.
func TestInputMustBeAnObject(t *testing.T) {
	t.Parallel()
	n := shared(t)
	for input, want := range map[string]string{
		"": "standard input holds no JSON object: it does not begin with {", "[1]": "it does not begin with {",
		`{"a":`: "standard input holds no JSON object: /a ends in the middle of its JSON", `{"a":nope}`: "/a is not JSON at byte 5",
	} {
		r := n.troupeWith(t, input, "submit", "core.echo", "--params", "-")
		require.Equal(t, 2, r.code)
		require.Contains(t, r.err, want)
	}
	r := n.troupeWith(t, "{}\n[]\n", "submit", "core.echo", "--batch", "-")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "standard input:2 holds no JSON object")
	r = n.troupe(t, "submit", "core.echo", "--params", "/nowhere.json")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "/nowhere.json: no such file")
	r = n.troupe(t, "submit", "core.sleep", "seconds:=long")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "for text write seconds=")
}

// TestNoNodeAnswers: the error says what to do.
func TestNoNodeAnswers(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"pools"}, {"submit", "core.echo"}, {"list"}, {"top"}, {"logs", "-f", "019aa5c0-0000-7000-8000-000000000001"}} {
		r := execute(t, "", []string{"TROUPE_SERVER=http://127.0.0.1:1"}, args...)
		require.Equal(t, 1, r.code, "%v: %s", args, r.err)
		require.Contains(t, r.err, "no node answers at http://127.0.0.1:1: start one with `troupe node`, or set --server or TROUPE_SERVER")
	}
}

// TestClientIsInterrupted interrupts a client that follows an execution. The execution continues.
func TestClientIsInterrupted(t *testing.T) {
	t.Parallel()
	n := shared(t)
	id := n.prints(t, "submit", "theatre.act", "lines:=40", "pause:=0.25")
	cmd := exec.Command(binary, "logs", "-f", id)
	cmd.Env = []string{"TROUPE_SERVER=" + n.url, "HOME=" + t.TempDir()}
	var out, said logBook
	cmd.Stdout, cmd.Stderr = &out, &said
	require.NoError(t, cmd.Start())
	await(t, "it follows", func() bool { return strings.Contains(out.String(), "line 0") })
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
	require.Contains(t, said.String(), "execution "+id+" goes on: `troupe wait "+id+"` waits for its end")
	require.Equal(t, "completed", n.finish(t, id).text("status"))
}

// TestWorkerCheck checks programs against the protocol. The Python SDK passes. For a faulty program the check says what is wrong.
func TestWorkerCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/theatre")))
	r := execute(t, "", nil, "worker", "check", "--rule", "hello", "--rule", "ping", "--", "python3", filepath.Join(dir, "actions", "rogue.py"))
	require.Equal(t, 0, r.code, r.out+r.err)
	r = execute(t, "", nil, "worker", "check", "--rule", "hello", "--", "sh", "-c", "echo garbage >&4; sleep 5")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out+r.err, "hello")
	r = execute(t, "", nil, "worker", "check", "--", "no-such-program")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out+r.err, "no-such-program")
}
