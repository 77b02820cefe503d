package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/rules/facets"
	"github.com/troupe-run/troupe/rules/failures"
	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/rules/timeline"
)

// document renders the OpenAPI 3.1 description of the table. The schemas come from the types that the handlers read and
// write. Only the library's document and schemas are used, because its server has its own errors, bodies and limits. A
// table that cannot be described is a bug, so it panics.
func document(table []*route, version, base string) []byte {
	schemas := huma.NewMapRegistry("#/components/schemas/", schemaName)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "Troupe", Version: version,
			Description: "Supervised worker pools: submit executions of actions, and see and steer the workers that run them."},
		Paths:      map[string]*huma.PathItem{},
		Components: &huma.Components{Schemas: schemas, SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}},
	}
	if base != "" {
		doc.Servers = []*huma.Server{{URL: base}}
	}
	problem := schemas.Schema(reflect.TypeFor[form.ErrorBody](), true, "")
	for _, rt := range table {
		path := strings.ReplaceAll(rt.path, "...}", "}")
		item := doc.Paths[path]
		if item == nil {
			item = &huma.PathItem{}
			doc.Paths[path] = item
		}
		op := operation(rt, schemas, problem)
		switch rt.method {
		case http.MethodGet:
			item.Get = op
		case http.MethodPost:
			item.Post = op
		case http.MethodDelete:
			item.Delete = op
		default:
			panic("api: no place in the OpenAPI document for the method " + rt.method)
		}
	}
	for _, s := range schemas.Map() {
		withoutNull(s)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(fmt.Sprintf("api: OpenAPI document: %v", err))
	}
	return text
}

// withoutNull makes every list of a schema one that is never null: the API writes an empty list as [], or leaves out an optional field.
func withoutNull(s *huma.Schema) {
	if s == nil {
		return
	}
	if s.Type == huma.TypeArray {
		s.Nullable = false
	}
	withoutNull(s.Items)
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		withoutNull(more)
	}
	for _, p := range s.Properties {
		withoutNull(p)
	}
}

// schemaNames are the names of the schemas that are not named as their type. Generated clients use these names, so they
// must not change.
var schemaNames = map[reflect.Type]string{
	reflect.TypeFor[submit.Request]():      "SubmitRequest",
	reflect.TypeFor[view.Node]():           "NodeView",
	reflect.TypeFor[view.Pool]():           "PoolView",
	reflect.TypeFor[view.Run]():            "RunView",
	reflect.TypeFor[view.Drain]():          "DrainEstimate",
	reflect.TypeFor[view.Line]():           "PlaceInLine",
	reflect.TypeFor[view.PastLine]():       "PastPlaceInLine",
	reflect.TypeFor[view.Retry]():          "RetryView",
	reflect.TypeFor[view.Session]():        "SessionView",
	reflect.TypeFor[view.Transition]():     "TransitionView",
	reflect.TypeFor[timeline.Attempt]():    "TimelineAttempt",
	reflect.TypeFor[timeline.Gap]():        "TimelineGap",
	reflect.TypeFor[timeline.LateWrite]():  "TimelineLateWrite",
	reflect.TypeFor[timeline.LeftOut]():    "TimelineLeftOut",
	reflect.TypeFor[timeline.Link]():       "TimelineLink",
	reflect.TypeFor[timeline.Retries]():    "TimelineRetries",
	reflect.TypeFor[timeline.Run]():        "TimelineRun",
	reflect.TypeFor[timeline.State]():      "TimelineState",
	reflect.TypeFor[timeline.Wait]():       "TimelineWait",
	reflect.TypeFor[timeline.Window]():     "TimelineWindow",
	reflect.TypeFor[failures.Group]():      "ErrorGroup",
	reflect.TypeFor[bulk.Counted]():        "BulkCount",
	reflect.TypeFor[facets.Count]():        "FacetCount",
	reflect.TypeFor[keyframe.Cells]():      "FleetPool",
	reflect.TypeFor[failures.Share]():      "ErrorShare",
	reflect.TypeFor[rollup.Line]():         "SeriesLine",
	reflect.TypeFor[rollup.Rest]():         "LedgerRest",
	reflect.TypeFor[rollup.SessionCount](): "LedgerRestored",
	reflect.TypeFor[rollup.Digest]():       "CountsView",
	reflect.TypeFor[rollup.DigestRange]():  "CountsRange",
	reflect.TypeFor[rollup.Failure]():      "FailureCount",
	reflect.TypeFor[rollup.Slower]():       "SlowerAction",
	reflect.TypeFor[view.Worker]():         "WorkerView",
	reflect.TypeFor[hub.Problem]():         "LiveProblem",
	reflect.TypeFor[view.Live]():           "OutputEntry",
	reflect.TypeFor[DeadLetterView]():      "DeadLetter",
}

// schemaName is the name of a type's schema.
func schemaName(t reflect.Type, hint string) string {
	of := t
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if name, named := schemaNames[of]; named {
		return name
	}
	return huma.DefaultSchemaNamer(t, hint)
}

func operation(rt *route, schemas huma.Registry, problem *huma.Schema) *huma.Operation {
	op := &huma.Operation{
		OperationID: operationID(rt), Summary: rt.summary, Tags: []string{rt.group}, Method: rt.method, Path: rt.path,
		Responses: map[string]*huma.Response{
			"default": {Description: "What was wrong.", Content: content(typeJSON, problem)},
		},
	}
	if rt.scope != ScopeOpen {
		op.Security = []map[string][]string{{"token": {string(rt.scope)}}}
		if rt.scope == ScopeAny {
			op.Security = []map[string][]string{{"token": {}}}
		}
		if rt.own {
			op.Security = append(op.Security, map[string][]string{"token": {string(ScopeSubmit)}})
		}
		op.Security = append(op.Security, map[string][]string{})
	}
	op.Description = "Scope: " + rt.needs() + "."
	for _, name := range rt.pathNames() {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: "string"}})
	}
	for _, p := range rt.params {
		op.Parameters = append(op.Parameters, queryParam(p))
	}
	if rt.body != nil {
		media := typeJSON
		if rt.stream {
			media = typeLines
		}
		op.RequestBody = &huma.RequestBody{Required: !rt.optional,
			Content: content(media, schemas.Schema(reflect.TypeOf(rt.body), true, ""))}
	}
	ok := &huma.Response{Description: http.StatusText(rt.status), Content: content(rt.media, &huma.Schema{})}
	if rt.result != nil {
		ok.Content = content(rt.media, schemas.Schema(reflect.TypeOf(rt.result), true, ""))
	}
	if rt.status == http.StatusNoContent {
		ok.Content = nil
	}
	op.Responses[strconv.Itoa(rt.status)] = ok
	return op
}

func queryParam(p param) *huma.Param {
	schema := &huma.Schema{Type: p.kind}
	if p.many {
		schema = &huma.Schema{Type: "array", Items: &huma.Schema{Type: p.kind}}
	}
	return &huma.Param{Name: p.name, In: "query", Description: p.help, Schema: schema}
}

func content(media string, schema *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{media: {Schema: schema}}
}

// operationID returns the route as one word: post-executions-id-cancel.
func operationID(rt *route) string {
	path := strings.NewReplacer("/api/v1/", "", "{", "", "}", "", ".", "").Replace(rt.path)
	return strings.ToLower(rt.method) + "-" + strings.ReplaceAll(strings.Trim(path, "/"), "/", "-")
}
