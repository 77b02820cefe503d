package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const operationID = "01a1fd53-77d0-7b0e-9a55-3a1c6e0f2b11"

// bulkNode is a node with one operation. It keeps what it was asked.
type bulkNode struct {
	*httptest.Server
	count    int64
	exact    bool
	states   []api.OperationView // of one look after the other; the last one stays
	previews []api.BulkPreviewBody
	confirms []api.BulkBody
	looked   chan struct{} // is told of a look, where set
	letters  []api.BulkLetter
}

func newBulkNode(t *testing.T, count int64) *bulkNode {
	n := &bulkNode{count: count, exact: true, states: []api.OperationView{{State: store.OperationRunning}, {State: store.OperationDone, Done: count}}}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	id, err := messages.ParseOperationID(operationID)
	require.NoError(t, err)
	mux.HandleFunc("POST /api/v1/bulk/preview", func(w http.ResponseWriter, r *http.Request) {
		var body api.BulkPreviewBody
		_ = json.NewDecoder(r.Body).Decode(&body)
		n.previews = append(n.previews, body)
		answer(w, api.BulkPreviewView{Preview: id, Count: n.count, Matched: n.count + 2, Exact: n.exact, Letters: n.letters, Skipped: []api.BulkSkipped{{Why: "already_retried", N: 2}}})
	})
	mux.HandleFunc("POST /api/v1/bulk", func(w http.ResponseWriter, r *http.Request) {
		var body api.BulkBody
		_ = json.NewDecoder(r.Body).Decode(&body)
		n.confirms = append(n.confirms, body)
		answer(w, api.BulkStarted{Operation: id})
	})
	mux.HandleFunc("GET /api/v1/operations/"+operationID, func(w http.ResponseWriter, _ *http.Request) {
		v := n.states[0]
		if len(n.states) > 1 {
			n.states = n.states[1:]
		}
		v.ID, v.Kind, v.Count = id, "retry", n.count
		answer(w, v)
		if n.looked != nil {
			n.looked <- struct{}{}
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", http.StatusNotFound) })
	n.Server = httptest.NewServer(mux)
	t.Cleanup(n.Close)
	return n
}

// typing runs the command line at a keyboard.
func (n *bulkNode) typing(ctx context.Context, t *testing.T, in io.Reader, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{in: in, out: &out, err: &errs, keyboard: true, environ: []string{"HOME=" + t.TempDir(), "TROUPE_SERVER=" + n.URL}}
	return result{a.run(ctx, args), out.String(), errs.String()}
}

func TestBulkAsksAtAKeyboard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		count int64
		exact bool
		typed string
		does  bool
	}{
		{3, true, "yes\n", true}, {3, true, "\n", false}, {3, true, "y\n", false}, {100, true, "yes\n", true}, {101, true, "yes\n", false},
		{101, true, "101\n", true}, {5000, false, "5000\n", false}, {5000, false, "pool=python&status=failed\n", true}, {3, true, "", false},
	} {
		name := fmt.Sprintf("%d %v %q", c.count, c.exact, c.typed)
		n := newBulkNode(t, c.count)
		n.exact = c.exact
		r := n.typing(t.Context(), t, strings.NewReader(c.typed), "bulk", "retry", "--status", "failed", "--pool", "python", "--reason", "why", "--rate", "7")
		require.Equal(t, map[string][]string{"status": {"failed"}, "pool": {"python"}}, n.previews[0].Filter, name)
		require.Contains(t, r.out, "already_retried", name)
		if !c.does {
			require.Equal(t, exitUsage, r.code, name)
			require.Contains(t, r.err, "nothing was changed", name)
			require.Empty(t, n.confirms, name)
			continue
		}
		require.Equal(t, exitOK, r.code, "%s: %s", name, r.err)
		require.Equal(t, []api.BulkBody{{Preview: operationID, ConfirmCount: &c.count, Reason: "why", Rate: 7}}, n.confirms, name)
		require.Contains(t, r.out, "done", name)
	}
}

func TestBulkWithoutAKeyboard(t *testing.T) {
	t.Parallel()
	n := newBulkNode(t, 3)
	environ := []string{"TROUPE_SERVER=" + n.URL}
	r := call(t, "yes\n", environ, "bulk", "cancel", "--pool", "p")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "give --yes, or --dry-run")
	require.Empty(t, n.previews, "nothing is asked")
	r = call(t, "", environ, "bulk", "cancel", "--yes")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "say which executions")
	r = call(t, "", environ, "bulk", "cancel", "--pool", "p", "--rate", "0", "--yes")
	require.Equal(t, exitUsage, r.code)

	r = call(t, "", environ, "bulk", "cancel", "--pool", "p", "--dry-run", "-o", "json")
	require.Zero(t, r.code, r.err)
	var p api.BulkPreviewView
	require.NoError(t, json.Unmarshal([]byte(r.out), &p))
	require.Equal(t, int64(3), p.Count)
	require.Empty(t, n.confirms)
	r = call(t, "", environ, "bulk", "cancel", "--pool", "p", "--yes", "-o", "json")
	require.Zero(t, r.code, r.err)
	var v api.OperationView
	require.NoError(t, json.Unmarshal([]byte(r.out), &v))
	require.Equal(t, store.OperationDone, v.State)
	require.Equal(t, "cancel", n.previews[1].Kind)

	n.states = []api.OperationView{{State: store.OperationDone, Failed: 1, Failures: []store.OperationFailure{{Error: "no room"}}}}
	r = call(t, "", environ, "bulk", "retry", "--pool", "p", "--yes")
	require.Equal(t, exitFailed, r.code, "some could not be retried")
	require.Contains(t, r.out, "no room")
	r = call(t, "", environ, "operation", operationID, "--follow")
	require.Zero(t, r.code)
	n.count = 0
	r = call(t, "", environ, "bulk", "retry", "--pool", "p", "--yes")
	require.Zero(t, r.code, "there is nothing to do")
	require.Len(t, n.confirms, 2)
}

func TestBulkOfDeadLetters(t *testing.T) {
	t.Parallel()
	n := newBulkNode(t, 3)
	environ := []string{"TROUPE_SERVER=" + n.URL}
	r := call(t, "", environ, "bulk", "requeue", "--letter-reason", "expired", "--action", "a.b", "--until", "2030-01-31T08:00:00Z", "--yes", "--reason", "the queue is back")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.out, "requeue 3 of 5 dead letters that match")
	require.Equal(t, api.BulkPreviewBody{Kind: "requeue", Filter: map[string][]string{"reason": {"expired"}, "action": {"a.b"}, "to": {"2030-01-31T08:00:00Z"}}}, n.previews[0])
	require.Equal(t, "the queue is back", n.confirms[0].Reason)
	n.letters = []api.BulkLetter{{ID: 71, Reason: "maxlen", Action: "c.d"}}
	n.states = []api.OperationView{{State: store.OperationDone, Failed: 1, Failures: []store.OperationFailure{{DeadLetter: 72, Error: "no room"}}}}
	r = call(t, "", environ, "bulk", "discard", "71", "72", "--yes")
	require.Equal(t, exitFailed, r.code, r.err)
	require.Equal(t, api.BulkPreviewBody{Kind: "discard", DeadLetters: []int64{71, 72}}, n.previews[1])
	require.Regexp(t, `(?m)^71 +maxlen +c\.d`, r.out)
	require.Regexp(t, `(?m)^72 +no room`, r.out)
	for _, c := range []struct {
		why  string
		args []string
	}{
		{"say which dead letters", nil}, {"not the number of a dead letter", []string{"x"}}, {"not the number of a dead letter", []string{"0"}},
		{"not both", []string{"71", "--action", "a"}},
	} {
		r = call(t, "", environ, append([]string{"bulk", "discard", "--yes"}, c.args...)...)
		require.Equal(t, exitUsage, r.code, c.args)
		require.Contains(t, r.err, c.why)
	}
	require.Len(t, n.previews, 2)
}

// TestBulkIsLeft checks that an interrupted verb leaves the operation, and says how to stop it.
func TestBulkIsLeft(t *testing.T) {
	t.Parallel()
	n := newBulkNode(t, 3)
	n.states, n.looked = n.states[:1], make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-n.looked
		cancel()
	}()
	r := n.typing(ctx, t, strings.NewReader("yes\n"), "bulk", "retry", "--status", "failed")
	require.Equal(t, exitStopped, r.code)
	require.Contains(t, r.err, "troupe operation "+operationID+" --stop")
	require.Len(t, n.confirms, 1)

	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	never, write := io.Pipe()
	defer write.Close()
	r = n.typing(ctx, t, never, "bulk", "retry", "--status", "failed")
	require.NotZero(t, r.code)
	require.Len(t, n.confirms, 1, "nobody has confirmed")
}
