package check_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/process/check"
	"github.com/troupe-run/troupe/sdk"
	worker "github.com/troupe-run/troupe/sdk/go"
)

// goWorker in the environment makes this test binary the Go worker under test.
const goWorker = "TROUPE_CHECK_GO_WORKER"

func TestMain(m *testing.M) {
	process.RunHelper()
	if os.Getenv(goWorker) != "" {
		serveGo()
	}
	goleak.VerifyTestMain(m)
}

func serveGo() {
	err := worker.Serve(context.Background(), map[string]worker.Handler{"check.wait": wait, "check.echo": echo})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func echo(_ context.Context, run *worker.Run) (any, error) { return run.Parameters, nil }

func wait(ctx context.Context, run *worker.Run) (any, error) {
	var p struct {
		Seconds float64 `json:"seconds"`
	}
	if err := json.Unmarshal(run.Parameters, &p); err != nil {
		return nil, err
	}
	if err := run.Progress(0.5, "waiting"); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(p.Seconds * float64(time.Second))):
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

const pythonAction = `
import time
def wait(params, ctx):
    if ctx.session is not None:
        ctx.session.state["runs"] = ctx.session.state.get("runs", 0) + 1
    ctx.progress(0.5, "waiting")
    ctx.log("info", "a line")
    print("printed, not framed")
    end = time.monotonic() + params.get("seconds", 0)
    while time.monotonic() < end:
        pass
    return params
`

const nodeAction = `
import { setTimeout } from "node:timers/promises";
export async function wait(params, ctx) {
  if (ctx.session) ctx.session.state.runs = (ctx.session.state.runs ?? 0) + 1;
  ctx.progress(0.5, "waiting");
  ctx.log("info", "a line");
  console.log("printed, not framed");
  if (params.seconds) await setTimeout(params.seconds * 1000, null, { signal: ctx.signal });
  return params;
}
`

func newGuardian(t *testing.T) *process.Guardian {
	t.Helper()
	g, err := process.NewGuardian(process.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	return root
}

// slowMachine bounds what a worker that keeps the rules may take to start, and to parse a frame of 16 MiB, on a busy machine:
// the Perl example parses it in Perl.
const slowMachine = 3 * time.Minute

// good is a worker that keeps every rule.
type good struct {
	argv    []string
	opts    check.Options
	missing []string // rules the rules of capabilities that it does not declare
}

func goodWorkers(t *testing.T) map[string]good {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, sdk.Materialize(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "wait.py"), []byte(pythonAction), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "wait.mjs"), []byte(nodeAction), 0o644))
	self, err := os.Executable()
	require.NoError(t, err)
	with := func(entrypoint string, env ...string) check.Options {
		return check.Options{
			Action: "check.wait", Root: dir, Entrypoint: entrypoint, Env: env,
			Parameters: json.RawMessage(`{"seconds":0}`), BusyParameters: json.RawMessage(`{"seconds":30}`),
			InitTimeout: slowMachine,
		}
	}
	perl := with("")
	perl.BusyParameters = nil
	// GORACE: a program built with the race detector otherwise sleeps for a second before it exits.
	return map[string]good{
		"python": {[]string{"python3", "-m", "troupe_worker"}, with("wait.py:wait", "PYTHONPATH="+sdk.PythonPath(dir)), nil},
		"node":   {[]string{"node", sdk.NodeMain(dir)}, with("wait.mjs:wait"), nil},
		"go":     {[]string{self}, with("", goWorker+"=1", "GORACE=atexit_sleep_ms=0"), []string{"snapshot"}},
		"perl": {[]string{"perl", filepath.Join(repository(t), "sdk", "examples", "worker.pl")}, perl,
			[]string{"ping_while_busy", "cancel", "cancel_unknown"}},
	}
}

func TestEverySDKKeepsEveryRule(t *testing.T) {
	t.Parallel()
	for name, w := range goodWorkers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var table bytes.Buffer
			report, err := check.Run(t.Context(), newGuardian(t), w.argv, w.opts, &table)
			require.NoError(t, err)
			require.True(t, report.Passed(), table.String())
			for _, f := range report.Findings {
				want := check.Passed
				for _, rule := range w.missing {
					if rule == f.Rule {
						want = check.NotDeclared
					}
				}
				require.Equal(t, want, f.Verdict, "rule %s\n%s", f.Rule, table.String())
			}
			require.Contains(t, table.String(), " 0 failed")
		})
	}
}

func TestWithoutAnActionAnErrorIsAnAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, sdk.Materialize(dir))
	opts := check.Options{Env: []string{"PYTHONPATH=" + sdk.PythonPath(dir)}}
	report, err := check.Run(t.Context(), newGuardian(t), []string{"python3", "-m", "troupe_worker"}, opts, io.Discard)
	require.NoError(t, err)
	f, ok := report.Find("execute")
	require.True(t, ok)
	require.Equal(t, check.Passed, f.Verdict, f.Detail)
	require.Contains(t, f.Detail, "--action")
	f, ok = report.Find("ping_while_busy")
	require.True(t, ok)
	require.Equal(t, check.NotTested, f.Verdict, f.Detail)
}

// base is a worker that keeps the rules. Each broken worker changes one line of it.
const base = `
import json, os, struct, sys, time
def take(n):
    b = bytearray()
    while len(b) < n:
        c = os.read(3, n - len(b))
        if not c: at_end()
        b += c
    return bytes(b)
def put(b):
    while b: b = b[os.write(4, b):]
def frame(o):
    d = json.dumps(o).encode()
    return struct.pack(">I", len(d)) + d
def result(id, data): put(frame({"event": "result", "id": id, "data": data}))
def error(id, code): put(frame({"event": "error", "id": id, "error": {"code": code, "message": code}}))
def at_end(): os._exit(0)
HELLO = {"protocol": 1, "sdk": "test", "version": "1", "pid": os.getpid(), "capabilities": {}}
state = {}
def handle(id, command, args):
    if command == "hello": result(id, HELLO)
    elif command == "execute": execute(id, args) if isinstance(args, dict) else error(id, "invalid_request")
    elif command == "shutdown":
        result(id, {})
        leave()
    elif command == "snapshot": result(id, {"state": state.get(args["epoch"])})
    elif command == "restore":
        state[args["epoch"]] = args["state"]
        result(id, {})
    elif command in ("ping", "health_check", "cancel", "end_session"): result(id, {})
    else: error(id, "unknown_command")
def execute(id, args): result(id, args["parameters"])
def leave(): os._exit(0)
#CHANGE
while True:
    r = json.loads(take(struct.unpack(">I", take(4))[0]))
    handle(r["id"], r["command"], r["args"])
`

var brokenWorkers = []struct{ name, rule, change, says string }{
	{"never answers hello", "hello", "handle = lambda *a: None", "no answer to hello"},
	{"hello is an error", "hello", `HELLO = None
def handle(id, command, args): error(id, "load_error")`, "load_error"},
	{"speaks another protocol", "hello", `HELLO["protocol"] = 2`, `"protocol": 1`},
	{"capabilities are no booleans", "hello", `HELLO["capabilities"] = ["cancel"]`, "not as described"},
	{"exits at once", "hello", `sys.stderr.write("no model\n"); sys.exit(3)`, "exit status 3: no model"},
	{"garbage on the pipe", "hello", `put(b"hello, world\n")`, "protocol error"},
	{"answers twice", "one_answer", `
def execute(id, args):
    result(id, 1)
    result(id, 2)`, "2 answers to execute"},
	{"wrong id", "ids", `
def execute(id, args):
    result(id + 1000, 1)
    result(id, 1)`, "which no request had"},
	{"wrong id alone", "execute", "def execute(id, args): result(id + 1000, 1)", "no answer to execute"},
	{"progress after the result", "ids", `
def execute(id, args):
    result(id, 1)
    put(frame({"event": "progress", "id": id, "fraction": 1, "message": ""}))`, "a progress event"},
	{"frame above the limit", "frames", `def execute(id, args): put(struct.pack(">I", (16 << 20) + 1) + b"x" * 100)`, "16777217"},
	{"frame of no bytes", "frames", `def execute(id, args): put(struct.pack(">I", 0))`, "frame length 0"},
	{"frame is no object", "frames", `def execute(id, args): put(frame([1]))`, "not a JSON object"},
	{"unknown event", "frames", `def execute(id, args): put(frame({"event": "reply", "id": id}))`, "unknown event"},
	{"exits in mid-run", "execute", "def execute(id, args): os._exit(0)", "the program ended (exit status 0)"},
	{"runs once", "execute_again", `
runs = []
def execute(id, args):
    if not runs: result(id, 1)
    runs.append(1)`, "no answer to execute"},
	{"takes any command", "unknown_command", `
inner = handle
def handle(id, command, args): result(id, {}) if command == "no_such_command" else inner(id, command, args)`, "got a result"},
	{"ignores ping", "ping", `
inner = handle
def handle(id, command, args): command == "ping" or inner(id, command, args)`, "no answer to ping"},
	{"claims ping while busy", "ping_while_busy", `
HELLO["capabilities"] = {"ping_while_busy": True}
def execute(id, args):
    if args["parameters"].get("busy"): time.sleep(30)
    result(id, 1)`, "no answer to ping"},
	{"claims cancel", "cancel", `
HELLO["capabilities"] = {"cancel": True}
def execute(id, args):
    if not args["parameters"].get("busy"): result(id, 1)`, "did not end"},
	{"snapshot without state", "snapshot", `
HELLO["capabilities"] = {"snapshot": True}
inner = handle
def handle(id, command, args): result(id, {}) if command == "snapshot" else inner(id, command, args)`, `has no "state"`},
	{"forgets what it restores", "snapshot", `
HELLO["capabilities"] = {"snapshot": True}
state[1] = 5
inner = handle
def handle(id, command, args): result(id, {}) if command == "restore" else inner(id, command, args)`, "differs"},
	{"refuses end_session", "end_session", `
HELLO["capabilities"] = {"sessions": True}
inner = handle
def handle(id, command, args): error(id, "no") if args.get("session") == "nobody" else inner(id, command, args)`, "error"},
	{"reads 64 KiB at most", "large_frame", `
inner = take
def take(n): return inner(n) if n < 65536 else time.sleep(30)`, "no answer to ping"},
	{"ends with a request that it cannot decode", "undecodable", `
inner = error
def error(id, code): os._exit(3) if code == "invalid_request" else inner(id, code)`, "exit status 3"},
	{"ignores shutdown", "shutdown", "def leave(): pass", "did not exit after shutdown"},
	{"shutdown with a status", "shutdown", "def leave(): os._exit(4)", "exit status 4"},
	{"outlives its input", "end_of_input", "def at_end(): time.sleep(30)", "did not exit when its input ended"},
	{"frames on standard output", "stdout", `
inner = result
def result(id, data):
    inner(id, data)
    os.write(1, frame({"event": "result", "id": id, "data": data}))`, "standard output"},
}

func TestBrokenWorkersFailTheRuleTheyBreak(t *testing.T) {
	t.Parallel()
	guardian := newGuardian(t)
	for _, b := range brokenWorkers {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			begin, patience := 30*time.Second, 30*time.Second // a busy machine takes long to start an interpreter, and to run one
			switch {
			case b.says == "no answer to hello":
				begin = 4 * time.Second
			case strings.HasPrefix(b.says, "no answer"), strings.HasPrefix(b.says, "did not"): // this much silence is waited out
				patience = 3 * time.Second
			}
			opts := check.Options{
				Action: "check.broken", BusyParameters: json.RawMessage(`{"busy":true}`),
				InitTimeout: begin, Patience: patience, Rules: []string{"execute", b.rule},
			}
			script := strings.Replace(base, "#CHANGE", b.change, 1)
			var table bytes.Buffer
			report, err := check.Run(t.Context(), guardian, []string{"python3", "-c", script}, opts, &table)
			require.NoError(t, err)
			require.False(t, report.Passed(), table.String())
			f, ok := report.Find(b.rule)
			require.True(t, ok)
			require.Equal(t, check.Failed, f.Verdict, table.String())
			require.Contains(t, f.Detail, b.says)
			require.NotEmpty(t, f.Advice)
		})
	}
}

func TestTheBaseOfTheBrokenWorkersPasses(t *testing.T) {
	t.Parallel()
	script := strings.Replace(base, "#CHANGE", `HELLO["capabilities"] = {"sessions": True, "snapshot": True}`, 1)
	var table bytes.Buffer
	report, err := check.Run(t.Context(), newGuardian(t), []string{"python3", "-c", script}, check.Options{Action: "check.x", InitTimeout: slowMachine}, &table)
	require.NoError(t, err)
	require.True(t, report.Passed(), table.String())
}

func TestAProgramThatDoesNotExist(t *testing.T) {
	t.Parallel()
	report, err := check.Run(t.Context(), newGuardian(t), []string{"/no/such/program"}, check.Options{}, io.Discard)
	require.NoError(t, err)
	f, _ := report.Find("hello")
	require.Equal(t, check.Failed, f.Verdict)
	require.Contains(t, f.Detail, "/no/such/program")
}

func TestAnUnknownRuleIsNamed(t *testing.T) {
	t.Parallel()
	_, err := check.Run(t.Context(), newGuardian(t), []string{"true"}, check.Options{Rules: []string{"pong"}}, io.Discard)
	require.ErrorContains(t, err, `"pong": want one of hello, ping,`)
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	_, err := check.Run(t.Context(), newGuardian(t), nil, check.Options{}, io.Discard)
	require.ErrorContains(t, err, "no program is named")
}

func TestTheCheckEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := check.Run(ctx, newGuardian(t), []string{"sleep", "60"}, check.Options{}, io.Discard)
	require.ErrorIs(t, err, context.Canceled)
}
