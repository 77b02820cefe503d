package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func splitPath(path string) []string { return strings.Split(strings.TrimPrefix(path, "/"), "/") }

// description is the served document, as far as the tests look into it.
type description struct {
	OpenAPI string                          `json:"openapi"`
	Paths   map[string]map[string]described `json:"paths"`
}

type described struct {
	ID         string `json:"operationId"`
	Parameters []struct {
		Name, In string
	} `json:"parameters"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

func served(t *testing.T) ([]byte, description) {
	w := ask(t, New(Config{Backend: newBackend(t)}), "GET", "/openapi.json", "")
	require.Equal(t, 200, w.Code)
	var d description
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d))
	return w.Body.Bytes(), d
}

func TestTheDocumentHasEveryRouteAndNoOther(t *testing.T) {
	t.Parallel()
	_, d := served(t)
	require.Equal(t, "3.1.0", d.OpenAPI)
	ids := map[string]bool{}
	for _, rt := range routes() {
		path := strings.ReplaceAll(rt.path, "...}", "}")
		op, ok := d.Paths[path][strings.ToLower(rt.method)]
		require.True(t, ok, "%s %s", rt.method, path)
		require.False(t, ids[op.ID], "two operations are called %s", op.ID)
		ids[op.ID] = true
		require.Len(t, op.Parameters, len(rt.pathNames())+len(rt.params))
		delete(d.Paths[path], strings.ToLower(rt.method))
	}
	for path, left := range d.Paths {
		require.Empty(t, left, path)
	}
}

// Every answer of the API is valid by the schema that the document gives for it.
func TestAnswersMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	raw, d := served(t)
	b := newBackend(t)
	h := New(Config{Backend: b})
	id := submitted(t, h, `{"action_ref":"core.echo","parameters":{"a":1},"labels":{"x":"y"},"session":"s"}`).ID.String()
	_, err := b.SaveDeadLetter(t.Context(), store.DeadLetter{Reason: "expired", Execution: mustID(t, id), Resolution: "failed", Headers: json.RawMessage(`{}`)})
	require.NoError(t, err)
	b.bind(t, "alice")
	operation := messages.NewOperationID()
	b.bulk = &bulkBackend{op: store.Operation{ID: operation, Kind: "retry", State: store.OperationRunning}}
	replace := strings.NewReplacer("{pool}/{name...}", "go/alice", "executions/{id}/webhook", "executions/"+b.given(t, 1)[0].String()+"/webhook", "executions/{id}", "executions/"+id, "dead-letters/{id}", "dead-letters/1", "actions/{ref}", "actions/core.echo", "nodes/{id}", "nodes/n1",
		"{node}/{pool}/{slot}", "n1/go/0", "pools/{pool}", "pools/go", "operations/{id}", "operations/"+operation.String())
	bodies := map[string]string{
		"/api/v1/executions": `{"action_ref":"a"}`, "/api/v1/executions/batch": `{"executions":[{"action_ref":"a"}]}`,
		"/api/v1/executions/stream": `{"action_ref":"a"}`, "/api/v1/marks": `{"name":"a"}`,
		"/api/v1/bulk/preview": `{"kind":"retry","filter":{"status":["failed"]}}`, "/api/v1/bulk": `{"preview":"` + operation.String() + `","confirm_count":1}`,
	}
	checked := 0
	for _, rt := range routes() {
		if rt.result == nil || rt.follows { // TestALiveStream reads that
			continue
		}
		path := replace.Replace(rt.path)
		if strings.HasSuffix(path, "/wait") {
			path += "?timeout_seconds=0"
		}
		if strings.HasSuffix(path, "/line") {
			path += "?at=2030-01-31T08:00:00Z"
		}
		body := ""
		if rt.method == http.MethodPost {
			body = bodies[path]
		}
		if strings.HasSuffix(path, "/retry") {
			ask(t, h, "POST", strings.Replace(path, "retry", "cancel", 1), "")
		}
		kind := typeJSON
		if rt.stream {
			kind = typeLines
		}
		w := ask(t, h, rt.method, path, body, "Content-Type", kind)
		require.Equal(t, rt.status, w.Code, "%s %s: %s", rt.method, path, w.Body)
		require.Equal(t, rt.media, w.Header().Get("Content-Type"))
		op := d.Paths[strings.ReplaceAll(rt.path, "...}", "}")][strings.ToLower(rt.method)]
		valid(t, raw, rt, op, w)
		checked++
	}
	require.Greater(t, checked, 30)
}

func valid(t *testing.T, raw []byte, rt *route, op described, w *httptest.ResponseRecorder) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	require.NoError(t, c.AddResource("mem:///openapi.json", document))
	pointer := "mem:///openapi.json#/paths/" + strings.NewReplacer("...}", "%7D", "~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(rt.path) + "/" +
		strings.ToLower(rt.method) + "/responses/" + w.Result().Status[:3] + "/content/" + strings.ReplaceAll(rt.media, "/", "~1") + "/schema"
	schema, err := c.Compile(pointer)
	require.NoError(t, err)
	texts := []string{w.Body.String()}
	if rt.stream {
		texts = slices.Collect(strings.Lines(w.Body.String()))
	}
	for _, text := range texts {
		answer, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(answer), "%s %s: %s", rt.method, rt.path, text)
	}
	require.NotEmpty(t, op.Responses["default"].Content)
}

func mustID(t *testing.T, text string) messages.ExecutionID {
	t.Helper()
	id, err := messages.ParseExecutionID(text)
	require.NoError(t, err)
	return id
}

// Clients that are generated from the document know the schemas by these names, whatever the types are called.
func TestTheSchemasKeepTheirNames(t *testing.T) {
	t.Parallel()
	w := ask(t, New(Config{Backend: newBackend(t)}), "GET", "/openapi.json", "")
	var d struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d))
	require.Equal(t, []string{
		"ActionList", "ActionView", "AliveView", "AsideState", "BatchItem", "BatchRequest", "BatchView", "BulkBody", "BulkBy", "BulkCount", "BulkLetter", "BulkPreviewBody", "BulkPreviewView", "BulkSkipped", "BulkStarted", "CauseCount", "ChainView", "ConfigView", "CordonView", "CountsRange", "CountsView", "DeadLetter",
		"DeadLetterCount", "DeadLetterList", "DeadLetterStats", "Difference", "Differences", "DoneView", "DrainEstimate", "Error", "ErrorBody", "ErrorGroup", "ErrorGroups", "ErrorShare", "ErrorView", "Event", "EventsView",
		"ExecutionList", "ExecutionView", "Explanation", "FacetCount", "Facets", "FailureCount", "Finding", "Findings", "Fleet", "FleetNode", "FleetPool", "GradeInput", "HealthView", "JournalEntry", "JournalList", "JournalSearched", "Ledger", "LedgerRest", "LedgerRestored", "LetterSearched", "LiveEvent", "LiveProblem", "LoginBody", "MarkBody", "MarkView", "MeView", "MissingPart", "NodeList", "NodeView", "OperationFailure", "OperationList", "OperationView", "OutputEntry", "OutputView", "Overview", "PastPlaceInLine", "PlaceInLine", "PoolDetail", "PoolList", "PoolOverview", "PoolQueue", "PoolView", "PriorityCount", "Rates", "ReachList",
		"Readiness", "ReadinessWait", "ReasonBody", "ReloadFailure", "ReloadReport", "RetryBody", "RetryView", "Routing", "RunView", "SearchedView", "Series", "SeriesLine", "Session", "SessionDetail", "SessionList", "SessionState", "SessionStateDropped", "SessionStateList", "SessionView", "SessionWork", "Setting", "Sight", "Sights", "SlotCount", "SlotFailure", "SlowerAction", "StatusCount",
		"StreamAnswer", "StreamEnd", "SubmitBody", "SubmitRequest", "Timeline", "TimelineAttempt", "TimelineGap", "TimelineLateWrite", "TimelineLeftOut", "TimelineLink", "TimelineRetries", "TimelineRun", "TimelineState", "TimelineWait",
		"TimelineWindow", "Totals", "TransitionView", "Unreached", "Webhook", "WebhookList", "WebhookView", "WorkerDetailView", "WorkerKey", "WorkerList", "WorkerRuns", "WorkerView",
	}, slices.Sorted(maps.Keys(d.Components.Schemas)))
}
