package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	process.RunHelper()
	time.Local = time.UTC // what people are shown does not depend on where the tests run
	syscall.Umask(0o022)  // folders of tests are data folders of nodes, which refuse what others may write to
	m.Run()
}

// answers is a node that answers by "METHOD path" with canned JSON, and keeps what it was asked.
type answers struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
	heads []http.Header
}

func serve(t *testing.T, canned map[string]string) *answers {
	t.Helper()
	a := &answers{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.asked = append(a.asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
		a.heads = append(a.heads, r.Header)
		a.mu.Unlock()
		answer, ok := canned[r.Method+" "+r.URL.Path]
		status := http.StatusOK
		if !ok {
			status, answer = http.StatusNotFound, `{"error":{"code":"not_found","message":"no `+r.URL.Path+`"}}`
		}
		if strings.HasPrefix(answer, "!") {
			_, _ = fmt.Sscanf(answer, "!%d", &status)
			answer = answer[4:]
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(a.Close)
	return a
}

// result is what one call of the command line did.
type result struct {
	code     int
	out, err string
}

// call runs the command line as a program would: no terminal, and the environment given.
func call(t *testing.T, input string, environ []string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(input), out: &out, err: &errs, environ: append([]string{"HOME=" + t.TempDir()}, environ...)}
	code := a.run(t.Context(), args)
	return result{code, out.String(), errs.String()}
}

func (s *answers) call(t *testing.T, args ...string) result {
	t.Helper()
	return call(t, "", []string{"TROUPE_SERVER=" + s.URL}, args...)
}

// golden compares with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run go test ./cmd/troupe -update when this is meant")
}

const (
	id1 = "019aa5c0-0000-7000-8000-000000000001"
	id2 = "019aa5c0-0000-7000-8000-000000000002"
)

func executionID(t *testing.T, text string) messages.ExecutionID {
	t.Helper()
	id, err := messages.ParseExecutionID(text)
	require.NoError(t, err)
	return id
}

func execution(id, status, more string) string {
	return `{"id":"` + id + `","action_ref":"core.echo","version":"1.0.0","pool":"go","status":"` + status + `","attempt":1,"priority":5,"max_retries":0,"retry_count":0` + more + `}`
}

func TestHelp(t *testing.T) {
	t.Parallel()
	golden(t, "help", call(t, "", nil, "help").out)
	golden(t, "help_submit", call(t, "", nil, "submit", "--help").out)
}

func TestSubmitPrintsTheID(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"POST /api/v1/executions": "!201" + execution(id1, "requested", "")})
	r := call(t, `{"n":12345678901234567890,"a":"x"}`, []string{"TROUPE_SERVER=" + s.URL, "TROUPE_TOKEN=sesame"},
		"submit", "core.echo", "message=hi <b>", "deep:={\"a\":[1,2]}", "a=over", "--params", "-", "--session", "s", "--priority", "9",
		"--key", "k", "--label", "team=x", "--timeout", "1500ms", "--max-retries", "2", "--queue-deadline", "1m")
	require.Equal(t, result{0, id1 + "\n", ""}, r)
	require.JSONEq(t, `{"action_ref":"core.echo","parameters":{"n":12345678901234567890,"a":"over","message":"hi <b>","deep":{"a":[1,2]}},
		"session":"s","priority":9,"idempotency_key":"k","labels":{"team":"x"},"timeout_seconds":1.5,"max_retries":2,"queue_deadline_seconds":60}`,
		strings.TrimPrefix(s.asked[0], "POST /api/v1/executions "))
	require.Contains(t, s.asked[0], "12345678901234567890", "no digit is lost")
	require.Equal(t, "Bearer sesame", s.heads[0].Get("Authorization"))
}

func TestSubmitWaits(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"POST /api/v1/executions":                 "!201" + execution(id1, "running", ""),
		"GET /api/v1/executions/" + id1 + "/wait": execution(id1, "completed", `,"result":{"message":"hi \u003cb\u003e","n":12345678901234567890}`),
	})
	require.Equal(t, result{0, `{"message":"hi <b>","n":12345678901234567890}` + "\n", ""}, s.call(t, "submit", "core.echo", "--wait"))
	require.Contains(t, s.asked[0], `"wait_seconds":60`)
}

// A short run is waited for in the call that submits it.
func TestSubmitWaitsInOneCall(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"POST /api/v1/executions": "!201" + execution(id1, "completed", `,"result":1`)})
	require.Equal(t, result{0, "1\n", ""}, s.call(t, "submit", "core.echo", "--wait"))
	require.Len(t, s.asked, 1)
}

// Where the node goes away while it is waited for, its id is known.
func TestSubmitKnowsTheIDOfWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form.SayEarly(w, r, executionID(t, id1))
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(s.Close)
	r := call(t, "", []string{"TROUPE_SERVER=" + s.URL}, "submit", "core.echo", "--wait")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.err, "execution "+id1+" was submitted; `troupe wait "+id1+"` waits for its end")
}

// The time that the node gives a call to a session does not end the command, which has a time of its own.
func TestSubmitToASessionWaitsForItsOwnTime(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			form.SayEarly(w, r, executionID(t, id1))
			w.WriteHeader(http.StatusGatewayTimeout)
			_, _ = w.Write([]byte(`{"error":{"code":"timeout","message":"Session operation timeout"}}`))
		case strings.HasSuffix(r.URL.Path, "/wait"):
			_, _ = w.Write([]byte(execution(id1, "completed", `,"result":1`)))
		default:
			_, _ = w.Write([]byte(execution(id1, "running", "")))
		}
	}))
	t.Cleanup(s.Close)
	require.Equal(t, result{0, "1\n", ""}, call(t, "", []string{"TROUPE_SERVER=" + s.URL}, "submit", "core.echo", "--wait", "--session", "s"))
}

func TestAFailureIsOnStandardErrorAndExits1(t *testing.T) {
	t.Parallel()
	failed := execution(id1, "failed", `,"requested_at":"2026-03-04T05:06:07Z","error":{"code":"exit_status","message":"exit status 3","stderr":"boom\n"}`)
	s := serve(t, map[string]string{"POST /api/v1/executions": "!201" + failed, "GET /api/v1/executions/" + id1: failed})
	want := result{1, "", "execution " + id1 + " failed: exit_status: exit status 3\nboom\n"}
	require.Equal(t, want, s.call(t, "submit", "core.fail", "--wait"))
	require.Equal(t, want, s.call(t, "wait", id1))
	r := s.call(t, "wait", id1, "-o", "json")
	require.Equal(t, 1, r.code)
	require.JSONEq(t, failed, r.out)
}

func TestWaitFollowsRetries(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/executions/" + id1: execution(id1, "failed", `,"retried_as":"`+id2+`","error":{"code":"timeout","message":"ran 1 s"}`),
		"GET /api/v1/executions/" + id2: execution(id2, "completed", ""),
	})
	r := s.call(t, "wait", id1)
	require.Equal(t, result{0, "null\n", "execution " + id1 + " failed: timeout: ran 1 s; it is retried as " + id2 + "\n"}, r)
}

// What failed for good says why nothing follows.
func TestAFailureSaysWhyNoRetryFollows(t *testing.T) {
	t.Parallel()
	failed := execution(id1, "failed", `,"error":{"code":"x","message":"y","class":"exception","no_retry":"never_on"}`)
	s := serve(t, map[string]string{"POST /api/v1/executions": "!201" + failed, "GET /api/v1/executions/" + id1: failed})
	want := result{1, "", "execution " + id1 + " failed: x: y\nno retry follows: its error, of class exception, is listed in the action's retry.never_on\n"}
	require.Equal(t, want, s.call(t, "submit", "core.echo", "--wait"))
	require.Equal(t, want, s.call(t, "wait", id1))
}

// A node of an older release has no streams: there a batch goes in calls.
func TestBatch(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"POST /api/v1/executions/batch":           `!201{"executions":[{"id":"` + id1 + `","status":"requested"},{"id":"` + id2 + `","status":"requested"}]}`,
		"GET /api/v1/executions/" + id1 + "/wait": execution(id1, "completed", ""),
		"GET /api/v1/executions/" + id2 + "/wait": execution(id2, "failed", `,"error":{"code":"x","message":"y"}`),
	})
	environ := []string{"TROUPE_SERVER=" + s.URL}
	lines := "{\"a\":1}\n\n{\"a\":2}\n"
	require.Equal(t, result{0, id1 + "\n" + id2 + "\n", ""}, call(t, lines, environ, "submit", "core.echo", "--batch", "-"))
	require.Contains(t, s.asked[1], `{"executions":[{"action_ref":"core.echo","parameters":{"a":1}},{"action_ref":"core.echo","parameters":{"a":2}}]}`)
	r := call(t, lines, environ, "submit", "core.echo", "--batch", "-", "--wait")
	require.Equal(t, 1, r.code)
	require.Equal(t, "STATUS     COUNT\ncompleted  1\nfailed     1\n", r.out)
	require.Equal(t, "execution "+id2+" failed: x: y\n", r.err)
}

// streams is a node that answers each line of a stream: with an execution, with a refusal of those with bad in them, and with an
// error about all after one with worse in it.
func streams(t *testing.T, lineOf func(n int)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/executions/stream" {
			w.Header().Set("Allow", "POST")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		lines, stored, refused := bufio.NewScanner(r.Body), 0, 0
		for n := 1; lines.Scan(); n++ {
			if lineOf != nil {
				lineOf(n)
			}
			switch text := lines.Text(); {
			case text == "":
				continue
			case strings.Contains(text, "worse"):
				fmt.Fprintf(w, `{"end":{"stored":%d,"refused":%d},"error":{"code":"store_unavailable","message":"the store is away"}}`+"\n", stored, refused)
				return
			case strings.Contains(text, "bad"):
				refused++
				fmt.Fprintf(w, `{"line":%d,"error":{"code":"invalid_parameters","message":"n must be a number"}}`+"\n", n)
			case strings.Contains(text, "none"):
				fmt.Fprintf(w, `{"line":%d,"error":{"code":"action_not_found","message":"there is no action"}}`+"\n", n)
			default:
				stored++
				fmt.Fprintf(w, `{"line":%d,"id":"019aa5c0-0000-7000-8000-%012d","status":"requested"}`+"\n", n, n)
			}
			_ = control.Flush()
		}
		fmt.Fprintf(w, `{"end":{"stored":%d,"refused":%d}}`+"\n", stored, refused)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestBatchAsAStream(t *testing.T) {
	t.Parallel()
	s := streams(t, nil)
	environ := []string{"TROUPE_SERVER=" + s.URL}
	id3 := strings.TrimSuffix(id1, "1") + "3"
	require.Equal(t, result{0, id1 + "\n" + id3 + "\n", ""}, call(t, "{\"a\":1}\n\n{\"a\":2}", environ, "submit", "core.echo", "--batch", "-"))
	require.Equal(t, "[\n  \""+id1+"\"\n]\n", call(t, "{}\n", environ, "submit", "core.echo", "--batch", "-", "-o", "json").out)

	file := filepath.Join(t.TempDir(), "lines.jsonl")
	require.NoError(t, os.WriteFile(file, []byte("{\"a\":1}\n\n{\"a\":\"bad\"}\n{}\n"), 0o600))
	r := call(t, "", environ, "submit", "core.echo", "--batch", file)
	require.Equal(t, 1, r.code)
	require.Equal(t, id1+"\n"+strings.TrimSuffix(id1, "1")+"4\n", r.out)
	require.Equal(t, file+":3: n must be a number (invalid_parameters)\ntroupe: 1 of 3 lines were refused\n", r.err)

	r = call(t, "{}\n{\"a\":\"worse\"}\n{}\n", environ, "submit", "core.echo", "--batch", "-")
	require.Equal(t, 1, r.code)
	require.Equal(t, id1+"\n", r.out)
	require.Equal(t, "troupe: after 1 submitted: the store is away (store_unavailable)\n", r.err)

	r = call(t, strings.Repeat("{}\n", 10_000), environ, "submit", "none", "--batch", "-")
	require.Equal(t, result{1, "", "troupe: after 0 submitted: there is no action (action_not_found)\n"}, r, "it is the same for every line")
}

// A wrong line of a file is found before anything is submitted; one of standard input when it comes.
func TestAWrongLineOfABatch(t *testing.T) {
	t.Parallel()
	asked := 0
	s := streams(t, func(int) { asked++ })
	environ := []string{"TROUPE_SERVER=" + s.URL}
	text := strings.Repeat("{}\n", 2000) + "[]\n{}\n"
	file := filepath.Join(t.TempDir(), "lines.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	r := call(t, "", environ, "submit", "core.echo", "--batch", file)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, file+":2001 holds no JSON object: it does not begin with {")
	require.Empty(t, r.out)
	require.Zero(t, asked)
	r = call(t, text, environ, "submit", "core.echo", "--batch", "-")
	require.Contains(t, r.err, "after 2000 submitted: standard input:2001 holds no JSON object")
	require.Equal(t, 2000, strings.Count(r.out, "\n"))
}

// A pipe that is named as a file, as a shell does for <(command), can be read only once.
func TestABatchFromANamedPipe(t *testing.T) {
	t.Parallel()
	s := streams(t, nil)
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte("{}\n{}\n"), 0o600) }()
	r := call(t, "", []string{"TROUPE_SERVER=" + s.URL}, "submit", "core.echo", "--batch", pipe)
	require.NoError(t, <-written)
	require.Equal(t, result{0, id1 + "\n" + strings.TrimSuffix(id1, "1") + "2\n", ""}, r)
}

// A line of standard input is submitted when it comes, not when the input ends.
func TestABatchIsSubmittedAsItComes(t *testing.T) {
	t.Parallel()
	seen := make(chan int)
	s := streams(t, func(n int) { seen <- n })
	in, lines := io.Pipe()
	var out, errs bytes.Buffer
	a := &app{in: in, out: &out, err: &errs, environ: []string{"HOME=" + t.TempDir(), "TROUPE_SERVER=" + s.URL}}
	code := make(chan int)
	go func() { code <- a.run(t.Context(), []string{"submit", "core.echo", "--batch", "-"}) }()
	for n := 1; n <= 3; n++ {
		_, err := io.WriteString(lines, "{}\n")
		require.NoError(t, err)
		require.Equal(t, n, <-seen)
	}
	require.NoError(t, lines.Close())
	require.Zero(t, <-code, errs.String())
	require.Equal(t, 3, strings.Count(out.String(), "\n"))
}

func TestUsageErrorsExit2(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"nope"}, `unknown command "nope"`},
		{[]string{"submit"}, "ACTION is missing"},
		{[]string{"submit", "a", "pair"}, `parameter "pair" must be key=value or key:=json`},
		{[]string{"submit", "a", "n:=x"}, "is not JSON; for text write n=…"},
		{[]string{"submit", "a", "--nope"}, "unknown flag: --nope"},
		{[]string{"submit", "a", "--priority", "10"}, "priority must be 0 to 9, got 10"},
		{[]string{"submit", "a", "--priority", "x"}, "invalid argument"},
		{[]string{"submit", "a", "--timeout", "-1s"}, "timeout_seconds"},
		{[]string{"submit", "a", "--at", "noon"}, "--at"},
		{[]string{"submit", "a", "--at", "-5m"}, "--at -5m lies in the past"},
		{[]string{"submit", "a", "--timeout", "5"}, "want a number with a unit, such as 30s, 5m or 2h"},
		{[]string{"submit", "a", "--label", "x"}, "must be name=value"},
		{[]string{"submit", "a", "--params", "-"}, "holds no JSON object"},
		{[]string{"submit", "a", "--batch", "-"}, "holds no line"},
		{[]string{"submit", "a\x00"}, "control character"},
		{[]string{"get"}, "ID is missing"},
		{[]string{"get", "a", "b"}, `"b" is one argument too many`},
		{[]string{"list", "-n", "0"}, "--limit must be 1 or more"},
		{[]string{"list", "-o", "xml"}, "-o must be table or json"},
		{[]string{"workers", "a/b"}, `worker id "a/b" must be node/pool/slot`},
		{[]string{"worker", "kill", "x"}, "must be node/pool/slot"},
		{[]string{"sessions", "end", "alice"}, "must be POOL/NAME"},
		{[]string{"sessions", "get", "/alice"}, "must be POOL/NAME"},
		{[]string{"sessions", "end"}, "POOL/NAME is missing"},
		{[]string{"sessions", "nope"}, "nope"},
		{[]string{"worker"}, "worker needs a verb"},
		{[]string{"worker", "nope"}, `worker knows no verb "nope"`},
		{[]string{"worker", "check"}, "CMD is missing"},
		{[]string{"cordon", "thing", "x"}, "must be node, pool or worker"},
		{[]string{"chaos", "--kills", "0"}, "--kills 1 to"},
		{[]string{"chaos", "--server", "http://10.0.0.1"}, "another machine's node"},
		{[]string{"bench", "-n", "0"}, "--count 1 or more"},
		{[]string{"pools", "--server", "ftp://x"}, "--server or TROUPE_SERVER"},
	} {
		r := call(t, "", nil, c.args...)
		require.Equal(t, exitUsage, r.code, "%v: %s", c.args, r.err)
		require.Contains(t, r.err, c.text)
		require.Contains(t, r.err, "--help")
		require.Empty(t, r.out)
	}
}

func TestNoNodeSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.Close()
	r := s.call(t, "pools")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "no node answers at "+s.URL+": start one with `troupe node`, or set --server or TROUPE_SERVER")
}

func TestErrorsOfTheNode(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/pools":                          `!401{"error":{"code":"unauthorized","message":"this node wants a token"}}`,
		"GET /api/v1/nodes":                          `!502<html>`,
		"GET /api/v1/actions":                        `not json`,
		"POST /api/v1/executions/" + id2 + "/cancel": execution(id2, "cancelled", ""),
	})
	require.Equal(t, result{1, "", "troupe: this node wants a token; set TROUPE_TOKEN (unauthorized)\n"}, s.call(t, "pools"))
	require.Contains(t, s.call(t, "nodes").err, "the server answered Bad Gateway; is it a Troupe node?")
	require.Contains(t, s.call(t, "actions").err, "is not what a Troupe node sends")
	r := s.call(t, "cancel", id1, id2)
	require.Equal(t, result{1, id2 + " cancelled\n", "troupe: no /api/v1/executions/" + id1 + "/cancel (not_found)\n"}, r)
}

func TestStoppedExits130(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs, environ: []string{"TROUPE_SERVER=" + s.URL}}
	require.Equal(t, exitStopped, a.run(ctx, []string{"wait", id1}))
	require.Equal(t, "troupe: stopped\n", errs.String())
}

// Who stops a verb that waits or follows is told that the execution goes on.
func TestWhoeverStopsAVerbIsToldWhatGoesOn(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"wait", id1}, {"logs", "-f", id1}} {
		ctx, stop := context.WithCancel(t.Context())
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, id1) { // it waits, or follows
				stop()
				<-r.Context().Done()
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"`+id1+`","status":"running"}`)
		}))
		var errs bytes.Buffer
		a := &app{in: strings.NewReader(""), out: io.Discard, err: &errs, environ: []string{"HOME=" + t.TempDir(), "TROUPE_SERVER=" + node.URL}}
		require.Equal(t, exitStopped, a.run(ctx, args), args)
		require.Equal(t, "execution "+id1+" goes on: `troupe wait "+id1+"` waits for its end, `troupe cancel "+id1+"` stops it\n", errs.String())
		node.Close()
	}
}
