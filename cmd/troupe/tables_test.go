package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor/api"
	"github.com/troupe-run/troupe/supervisor/debug"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestWorkerTable(t *testing.T) {
	t.Parallel()
	workers := []api.WorkerView{
		{ID: "n1/go/0", Runtime: messages.RuntimeGo, State: "ready", Health: "healthy", Grade: "healthy", Generation: 1, Since: noon.Add(-90 * time.Second)},
		{ID: "n1/python/1", Runtime: messages.RuntimePython, State: "degraded", Health: "unhealthy", Grade: "degraded", Generation: 12, Pid: 4711,
			Cordoned: true, Since: noon.Add(-25 * time.Hour), LastError: "probe: \x1b[31mno answer\nfor 5 s " + strings.Repeat("x", 80)},
	}
	text := renderTable(workerHeads, workerRows(workers, noon))
	require.NotContains(t, text, "\x1b[31mno", "what a program said never steers the terminal")
	golden(t, "workers", plain(text))
}

func TestPoolTable(t *testing.T) {
	t.Parallel()
	golden(t, "pools", plain(renderTable(poolHeads, poolRows([]api.PoolView{
		{Name: "go", Runtime: messages.RuntimeGo, Workers: 128, Ready: 126, Busy: 2, Waiting: 1000, Placed: 40},
		{Name: "demo.models", Runtime: messages.RuntimePython, Workers: 4, Broken: true, Reason: "no python", Restarts: 17},
	}))))
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

func TestTree(t *testing.T) {
	t.Parallel()
	var actors debug.Tree
	require.NoError(t, json.Unmarshal([]byte(`{"node":"n1","count":6,"roots":[{"id":"troupe","kind":"root","since":"2026-01-02T11:00:00Z","children":[
		{"id":"troupe/recorder","kind":"recorder","since":"2026-01-02T11:59:00Z","mailbox_depth":7},
		{"id":"troupe/pools","kind":"pools","since":"2026-01-02T11:00:00Z","children":[
			{"id":"a","kind":"worker","state":"busy","health":"healthy","since":"2026-01-02T11:59:59Z","execution":"`+id1+`"},
			{"id":"b","kind":"worker","state":"degraded","health":"unhealthy","since":"2026-01-02T11:59:58Z","why":"probe failed","restarts":2,"last_failure":"x\u001b[2J"},
			{"id":"c","kind":"worker","since":"2026-01-02T11:59:58Z"}]}]}]}`), &actors))
	text := renderTree(actors, 2, noon)
	require.NotContains(t, text, "\x1b[2J")
	golden(t, "tree", plain(text))
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
			`{"kind":"progress","fraction":0.5,"message":"half","at":"2026-01-02T12:00:00Z"}` + "\n" + `{"kind":"chunk","chunk":{"a":1},"at":"2026-01-02T12:00:00Z"}` + "\n",
		"GET /api/v1/executions/" + id2 + "/output": `{"error":{"code":"unavailable","message":"the store is away"}}` + "\n",
	})
	r := s.call(t, "logs", "-f", id1)
	require.Equal(t, result{0, "hi\n{\"a\":1}\n", "running\nno\nprogress 50 % half\n"}, r)
	require.Equal(t, result{1, "", "troupe: the store is away (unavailable)\n"}, s.call(t, "logs", "-f", id2))
}

func TestActorsAreOrderedAsPeopleDo(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"p/9.1", "p/10.1"}, {"p/1.2", "p/1.10"}, {"a", "b"}, {"p", "p/0"}, {"p/2", "p/x"}} {
		require.Negative(t, compareNatural(pair[0], pair[1]), pair)
		require.Positive(t, compareNatural(pair[1], pair[0]), pair)
	}
	require.Zero(t, compareNatural("p/10.1", "p/10.1"))
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
