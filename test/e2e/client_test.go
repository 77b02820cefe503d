package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// object is a decoded JSON answer.
type object map[string]any

// text is the value at a path of keys; empty if there is none.
func (o object) text(keys ...string) string {
	var v any = map[string]any(o)
	for _, key := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return ""
		}
		v = m[key]
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func (o object) list(key string) []object {
	items, _ := o[key].([]any)
	list := make([]object, len(items))
	for i := range items {
		list[i], _ = items[i].(map[string]any)
	}
	return list
}

// call sends a request and decodes the answer. body is JSON text, a value to encode, or nil.
func (n *node) call(t *testing.T, method, path string, body any) (int, object) {
	t.Helper()
	status, raw := n.raw(t, method, path, body)
	var answer object
	require.NoError(t, json.Unmarshal(raw, &answer), "%s %s answered %d: %s", method, path, status, raw)
	return status, answer
}

func (n *node) raw(t *testing.T, method, path string, body any) (int, []byte) {
	t.Helper()
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	default:
		encoded, err := json.Marshal(b)
		require.NoError(t, err)
		content = bytes.NewReader(encoded)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.url+path, content)
	require.NoError(t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if n.token != "" {
		req.Header.Set("Authorization", "Bearer "+n.token)
	}
	res, err := n.client.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, raw
}

func (n *node) get(t *testing.T, path string) object {
	t.Helper()
	status, answer := n.call(t, "GET", path, nil)
	require.Equal(t, http.StatusOK, status, "GET %s: %v", path, answer)
	return answer
}

// submit submits an execution and returns the stored one.
func (n *node) submit(t *testing.T, action string, parameters object, more ...object) object {
	t.Helper()
	request := object{"action_ref": action, "parameters": parameters}
	if parameters == nil {
		request["parameters"] = object{}
	}
	for _, m := range more {
		for key, value := range m {
			request[key] = value
		}
	}
	status, answer := n.call(t, "POST", "/api/v1/executions", request)
	require.Equal(t, http.StatusCreated, status, "submit %s: %v", action, answer)
	return answer
}

// finish waits for an execution's end and returns it.
func (n *node) finish(t *testing.T, id string) object {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		e := n.get(t, "/api/v1/executions/"+id+"/wait?timeout_seconds=10")
		switch e.text("status") {
		case "completed", "failed", "timed_out", "cancelled", "abandoned":
			return e
		}
		if time.Now().After(deadline) {
			t.Fatalf("execution %s does not end: %v", id, e)
		}
	}
}

// runs submits an execution and waits for its end.
func (n *node) runs(t *testing.T, action string, parameters object, more ...object) object {
	t.Helper()
	return n.finish(t, n.submit(t, action, parameters, more...).text("id"))
}

// works checks that the node still runs executions.
func (n *node) works(t *testing.T) {
	t.Helper()
	require.Equal(t, "completed", n.runs(t, "core.echo", object{"still": "there"}).text("status"))
}
