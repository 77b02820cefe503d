package node_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
)

// What a node answers is as its description of the API says, also where it has nothing to show: no list is null.
func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	noop := func(context.Context, *messages.Task) (any, error) { return nil, nil }
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.Listen = "127.0.0.1:0"
	}, goPack(t, map[string]string{"noop": ""}))
	answer := func(path string) (int, any) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+k.Addr()+path, nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
		require.NoError(t, err, "%s: %s", path, text)
		return response.StatusCode, v
	}
	_, document := answer("/openapi.json")
	schemas := jsonschema.NewCompiler()
	schemas.DefaultDraft(jsonschema.Draft2020)
	require.NoError(t, schemas.AddResource("mem:///openapi.json", document))
	check := func(path, responses string) {
		status, v := answer(path)
		require.Equal(t, http.StatusOK, status, "%s: %v", path, v)
		schema, err := schemas.Compile("mem:///openapi.json#/paths/" + responses)
		require.NoError(t, err)
		require.NoError(t, schema.Validate(v), "%s: %v", path, v)
	}
	pointer := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	paths, checked := document.(map[string]any)["paths"].(map[string]any), 0
	walk := func(names *strings.Replacer, has func(path string) bool) {
		for path, item := range paths {
			op, reads := item.(map[string]any)["get"].(map[string]any)
			if !reads || !has(path) {
				continue
			}
			content, is := op["responses"].(map[string]any)["200"].(map[string]any)["content"].(map[string]any)
			if _, document := content["application/json"]; !is || !document {
				continue
			}
			check(names.Replace(path), pointer.Replace(path)+"/get/responses/200/content/application~1json/schema")
			checked++
		}
	}
	unnamed := strings.NewReplacer()
	walk(unnamed, func(path string) bool { return !strings.Contains(path, "{") })
	id := k.run("t.noop", nil).ID.String()
	nothing := []string{"/api/v1/dead-letters/{id}", "/api/v1/operations/{id}", "/api/v1/sessions/{pool}/{name}", "/api/v1/session-states/{pool}/{name}", "/debug/actors/{id}"} // there are none
	walk(strings.NewReplacer("executions/{id}/line", "executions/"+id+"/line?at=2030-01-31T08:00:00Z", "executions/{id}", "executions/"+id, "nodes/{id}", "nodes/test", "{node}/{pool}/{slot}", "test/go/0", "pools/{pool}", "pools/go", "actions/{ref}", "actions/t.noop"),
		func(path string) bool { return !slices.Contains(nothing, path) })
	require.Greater(t, checked, 50)
}
