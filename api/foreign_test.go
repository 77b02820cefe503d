package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// wireRequest is what other programs send; its names are a contract.
const wireRequest = `{
  "action_ref": "core.echo",
  "parameters": {"message": "hi"},
  "session": "s",
  "affinity": "hint",
  "priority": 7,
  "run_at": "2026-03-04T05:06:07Z",
  "idempotency_key": "order-7",
  "timeout_seconds": 1.5,
  "max_retries": 2,
  "queue_deadline_seconds": 60,
  "labels": {"team": "a"}
}`

func TestDecodeSubmitReadsTheWireForm(t *testing.T) {
	t.Parallel()
	priority, timeout, retries, deadline := 7, 1.5, 2, 60.0
	want := submit.Request{
		ActionRef: "core.echo", Parameters: json.RawMessage(`{"message": "hi"}`), Session: "s", Affinity: "hint", Priority: &priority,
		RunAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), IdempotencyKey: "order-7", TimeoutSeconds: &timeout, MaxRetries: &retries,
		QueueDeadline: &deadline, Labels: map[string]string{"team": "a"},
	}
	got, err := api.DecodeSubmit([]byte(wireRequest))
	require.NoError(t, err)
	require.Equal(t, want, got)
	raw, err := api.EncodeSubmit(got)
	require.NoError(t, err)
	require.JSONEq(t, wireRequest, string(raw))
}

func TestDecodeSubmitRefusesAsTheAPIDoes(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct {
		status int
		code   messages.Code
	}{
		"":                              {http.StatusBadRequest, "invalid_json"},
		"\xff":                          {http.StatusBadRequest, "invalid_json"},
		`{"action_ref": "a.b"} {}`:      {http.StatusBadRequest, "invalid_json"},
		`{"action_ref": "a.b", "x": 1}`: {http.StatusBadRequest, "unknown_field"},
		strings.Repeat("[", 200):        {http.StatusBadRequest, "invalid_json"},
		`{"action_ref": "a.b", "wait_seconds": 0}`:    {http.StatusBadRequest, "invalid_request"},
		`{"action_ref": "a.b", "created_by": "root"}`: {http.StatusBadRequest, "unknown_field"},
		`{"action_ref": "a.b", "priority": 10}`:       {http.StatusBadRequest, "invalid_request"},
		strings.Repeat(" ", api.BodyMax+1):            {http.StatusRequestEntityTooLarge, "parameters_too_large"},
	} {
		_, err := api.DecodeSubmit([]byte(body))
		var p *messages.Problem
		require.ErrorAs(t, err, &p, "%.40q", body)
		require.Equal(t, want.status, api.StatusOf(p), "%.40q: %s", body, p.Message)
		require.Equal(t, want.code, p.Code, "%.40q: %s", body, p.Message)
	}
}
