package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A person who asks for an execution that failed sees where its code failed, and why no retry comes.
func TestGetShowsTheTracebackAndWhyNoRetryComes(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/executions/" + id1: execution(id1, "failed", `,"retry":{"message":"no retry comes: max_retries is 0"},"error":{"code":"action_error","message":"KeyError: 'a'",`+
			`"details":{"type":"KeyError","traceback":"Traceback (most recent call last):\n  File \"x.py\", line 3\nKeyError: 'a'\u001b[31m\n"}}`),
	})
	r := s.call(t, "get", id1)
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.out, "no retry comes: max_retries is 0")
	require.Contains(t, r.out, "\n\nTraceback (most recent call last):\n  File \"x.py\", line 3\nKeyError: 'a'·[31m\n")
}

// Who asks for the chain and for the events gets both, and each alone is as before.
func TestGetShowsTheChainAndTheEvents(t *testing.T) {
	t.Parallel()
	path := "GET /api/v1/executions/" + id2
	s := serve(t, map[string]string{
		path + "/chain":  `{"executions":[` + execution(id1, "failed", "") + `,` + execution(id2, "completed", "") + `]}`,
		path + "/events": `{"events":[{"at":"2026-01-02T12:00:00Z","attempt":1,"kind":"take_back","from":"scheduled","to":"requested","reason":"claim_timeout","worker":"n/go/0"}],"more":true}`,
	})
	both := s.call(t, "get", id2, "--chain", "--events")
	require.Zero(t, both.code, both.err)
	require.Regexp(t, `(?s)^ID .*\n`+id1+` .*failed.*\n`+id2+` .*completed.*\n\nEvents of `+id2+`:\nAT .*take_back .*claim_timeout +n/go/0`, both.out)
	chain, events := s.call(t, "get", id2, "--chain"), s.call(t, "get", id2, "--events")
	require.Equal(t, chain.out+"\nEvents of "+id2+":\n"+events.out, both.out)
	require.NotContains(t, chain.out, "take_back")
	require.NotContains(t, events.out, "completed")
	var all struct {
		Executions []struct{ ID string }
		Events     []struct{ Kind string }
		More       bool
	}
	require.NoError(t, json.Unmarshal([]byte(s.call(t, "get", id2, "--chain", "--events", "-o", "json").out), &all))
	require.Len(t, all.Executions, 2)
	require.Equal(t, "take_back", all.Events[0].Kind)
	require.True(t, all.More)
	require.NotContains(t, s.call(t, "get", id2, "--chain", "-o", "json").out, `"events"`)
	require.NotContains(t, s.call(t, "get", id2, "--events", "-o", "json").out, `"executions"`)
}

func TestGetShowsTheProgressOfARun(t *testing.T) {
	t.Parallel()
	path := "GET /api/v1/executions/" + id1
	s := serve(t, map[string]string{
		path: execution(id1, "running", ""),
		path + "/output": `{"kind":"progress","fraction":0.2,"message":"begun","at":"2026-01-02T12:00:00Z"}` + "\n" +
			`{"kind":"stdout","data":"aGkK","at":"2026-01-02T12:00:00Z"}` + "\n" + `{"kind":"progress","fraction":0.5,"message":"half","at":"2026-01-02T12:00:00Z"}` + "\n",
	})
	r := s.call(t, "get", id1)
	require.Zero(t, r.code, r.err)
	require.Regexp(t, `(?m)^progress +50 % half$`, r.out)
	require.NotContains(t, s.call(t, "get", id1, "-o", "json").out, "half")
}

func TestTimesCarryTheirZone(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 12, 0, 0, 500e6, time.FixedZone("", 3600))
	require.Equal(t, "2026-01-02 11:00:00.500Z", clock(at))
	require.Empty(t, clock(time.Time{}))
}

// A batch that is waited for gives programs each id with its end.
func TestABatchAsJSONGivesIdsAndResults(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"POST /api/v1/executions/batch":           `!201{"executions":[{"id":"` + id1 + `","status":"requested"},{"id":"` + id2 + `","status":"requested"}]}`,
		"GET /api/v1/executions/" + id1 + "/wait": execution(id1, "completed", `,"result":{"a":"<b>"}`),
		"GET /api/v1/executions/" + id2 + "/wait": execution(id2, "failed", `,"error":{"code":"action_error","message":"boom"}`),
	})
	r := call(t, "{}\n{}\n", []string{"TROUPE_SERVER=" + s.URL}, "submit", "core.echo", "--batch", "-", "--wait", "-o", "json")
	require.Equal(t, 1, r.code)
	var ends []struct {
		ID, Status string
		Result     json.RawMessage
		Error      *struct{ Code, Message string }
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &ends), r.out)
	require.Len(t, ends, 2)
	require.Equal(t, id1, ends[0].ID)
	require.JSONEq(t, `{"a":"<b>"}`, string(ends[0].Result))
	require.Equal(t, id2, ends[1].ID)
	require.Equal(t, "failed", ends[1].Status)
	require.Equal(t, "boom", ends[1].Error.Message)
}

// Whoever asks why an execution waits is told what to do about it too.
func TestWhySaysWhatToDo(t *testing.T) {
	t.Parallel()
	path := "GET /api/v1/executions/" + id1 + "/why"
	of := func(more string) map[string]string {
		return map[string]string{path: `{"execution":"` + id1 + `","status":"requested","reason":"workers_busy","message":"every worker is busy"` + more + `}`}
	}
	r := serve(t, of(`,"what_to_do":"Wait.\u001b[31m","retry":{"message":"a failure is not retried"}`)).call(t, "why", id1)
	require.Zero(t, r.code, r.err)
	require.Equal(t, "requested: every worker is busy (workers_busy)\nWhat to do: Wait.·[31m\na failure is not retried\n", r.out)
	r = serve(t, of("")).call(t, "why", id1)
	require.Equal(t, "requested: every worker is busy (workers_busy)\n", r.out)
	r = serve(t, of(`,"line":{"ahead":3,"of":"pool"}`)).call(t, "why", id1)
	require.Equal(t, "requested: every worker is busy (workers_busy)\n3 before it for the next free worker\n", r.out)
	r = serve(t, of(`,"line":{"ahead":10000,"at_least":true,"of":"later"}`)).call(t, "why", id1)
	require.Contains(t, r.out, "at least 10000 before it later\n")
}
