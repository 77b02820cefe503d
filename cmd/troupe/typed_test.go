package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const typedSchema = `{"type":"object","properties":{"seconds":{"type":"number"},"count":{"type":["integer","null"]},"on":{"type":"boolean"},
	"text":{"type":"string"},"either":{"type":["string","number"]},"tags":{"type":"array"},"size":{"$ref":"#/$defs/size"},
	"when":{"anyOf":[{"type":"integer"},{"const":"now"}]},"wait":{"anyOf":[{"type":"integer"},{"type":"null"}]},"level":{"enum":[1,2]},"any":{}},
	"allOf":[{"properties":{"inner":{"type":"integer"}}}],"$defs":{"size":{"$ref":"#/$defs/whole"},"whole":{"type":"integer"}}}`

func TestTextBecomesANumberWhereTheSchemaTakesNoText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, pair, want string }{
		{typedSchema, "seconds=2", "seconds:=2"}, {typedSchema, "seconds=-2.5e1", "seconds:=-2.5e1"}, {typedSchema, "count=3", "count:=3"},
		{typedSchema, "on=true", "on:=true"}, {typedSchema, "size=4", "size:=4"}, {typedSchema, "wait=4", "wait:=4"},
		{typedSchema, "level=1", "level:=1"}, {typedSchema, "inner=1", "inner:=1"}, {`{"additionalProperties":{"type":"integer"}}`, "x=1", "x:=1"},
		// What may be text stays text, and so does what is no number.
		{typedSchema, "text=2", ""}, {typedSchema, "either=2", ""}, {typedSchema, "when=2", ""}, {typedSchema, "any=2", ""},
		{typedSchema, "seconds=two", ""}, {typedSchema, "seconds=", ""}, {typedSchema, "seconds=02", ""}, {typedSchema, "seconds= 2", ""},
		{typedSchema, "on=1", ""}, {typedSchema, "seconds=true", ""}, {typedSchema, "tags=1", ""}, {typedSchema, "seconds:=2", ""},
		{typedSchema, "unknown=2", ""}, {typedSchema, "pair", ""}, {typedSchema, "=2", ""},
		{``, "n=1", ""}, {`true`, "n=1", ""}, {`[]`, "n=1", ""}, {`{"properties":3}`, "n=1", ""},
		{`{"properties":{"n":{"$ref":"#/properties/n"}}}`, "n=1", ""}, {`{"$ref":"#","allOf":[{"$ref":"#"},{"$ref":"#"}]}`, "n=1", ""},
		{`{"properties":{"n":{"$ref":"#/nowhere/at/all"}}}`, "n=1", ""}, {`{"properties":{"n":{"anyOf":[{"$ref":"#/properties/n"},{"$ref":"#/properties/n"}]}}}`, "n=1", ""},
	} {
		want := c.want
		if want == "" {
			want = c.pair
		}
		require.Equal(t, []string{want}, typedPairs(json.RawMessage(c.schema), []string{c.pair}), "%s in %s", c.pair, c.schema)
	}
}

func TestSubmitAsksForTheSchemaOfNumbersOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/actions":     `{"actions":[{"ref":"core.sleep","parameters":` + typedSchema + `}]}`,
		"POST /api/v1/executions": execution(id1, "requested", ""),
	})
	require.Zero(t, s.call(t, "submit", "core.sleep", "seconds=2", "text=2").code)
	require.Zero(t, s.call(t, "submit", "core.sleep", "text=a").code)
	require.Len(t, s.asked, 3)
	require.Contains(t, s.asked[1], `"parameters":{"seconds":2,"text":"2"}`)
}

func TestARefusalOfTextShowsHowJSONIsWritten(t *testing.T) {
	t.Parallel()
	const refusal = `!422{"error":{"code":"invalid_parameters","message":"action a.b: parameters: /tags: got string, want array"}}`
	s := serve(t, map[string]string{"POST /api/v1/executions": refusal})
	r := s.call(t, "submit", "a.b", "tags=red")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "write tags:=…")
	require.NotContains(t, s.call(t, "submit", "a.b", `tags:="red"`).err, "write tags")
	require.NotContains(t, s.call(t, "submit", "a.b", "names=red").err, ":=")
}

func TestCompletionOffersParametersStatusesAndWorkers(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"GET /api/v1/actions": `{"actions":[{"ref":"core.sleep","parameters":` + typedSchema + `}]}`,
		"GET /api/v1/workers": `{"workers":[{"id":"n1/go/0","state":"ready"},{"id":"n2/go/0","state":"busy"}]}`,
	})
	for _, c := range []struct {
		line, want string
		not        []string
	}{
		{"submit core.sleep se", "seconds=\tnumber\n:6\n", []string{"count"}},
		{"submit core.sleep seconds=2 ", "count=", []string{"seconds="}},
		{"submit core.sleep ta", "tags:=\tarray\n", nil},
		{"submit core.sleep text=a,s", ":4\n", []string{"seconds"}},
		{"submit core.none ", ":4\n", []string{"="}},
		{"list --status fa", "failed\n:4\n", []string{"running"}},
		{"list --status failed,ti", "failed,timed_out\n:4\n", []string{"running"}},
		{"list --worker n2", "n2/go/0\tbusy\n:4\n", []string{"n1/"}},
		{"worker kill n1", "n1/go/0\tready\n:4\n", []string{"n2/"}},
		{"workers --state re", "ready\n:4\n", []string{"busy"}},
		{"submit core.sleep --affinity strict_", "strict_fail\n:4\n", nil},
	} {
		r := s.call(t, append([]string{"__complete"}, strings.Split(c.line, " ")...)...)
		require.Zero(t, r.code, r.err)
		require.Contains(t, r.out, c.want, c.line)
		for _, not := range c.not {
			require.NotContains(t, r.out, not, c.line)
		}
	}
}
