package pack_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
)

func TestRegisteredActionsNeedNoFiles(t *testing.T) {
	t.Parallel()
	set, err := pack.Load(nil, pack.Options{Registered: []messages.Action{
		{Ref: "mail.send", Parameters: json.RawMessage(`{"required":["to"]}`), MaxRetries: 2, RetriesConsented: true}, {Ref: "a.b.c"},
	}})
	require.NoError(t, err)
	require.Empty(t, set.Packs)
	a, ok := set.Action("mail.send")
	require.True(t, ok)
	require.Equal(t, messages.Action{
		Ref: "mail.send", Pack: "mail", Version: "0", Runtime: "go", Pool: "go", Entrypoint: "mail.send",
		Parameters: a.Parameters, MaxRetries: 2, RetriesConsented: true,
	}, *a)
	pool, ok := set.Pool("go")
	require.True(t, ok)
	require.Equal(t, []string{"a.b.c", "mail.send"}, pool.Actions)
	require.EqualError(t, set.Validate(t.Context(), "mail.send", nil), "parameters: /to: missing required property")
}

func TestBadRegistrations(t *testing.T) {
	t.Parallel()
	dir := write(t, files{"pack.yaml": goodPack, "actions/a.yaml": "name: a\nruntime: go\n"})
	_, err := pack.Load([]string{dir}, pack.Options{Registered: []messages.Action{
		{Ref: "plain"}, {Ref: "core.a"}, {Ref: "p.x", Runtime: "shell"}, {Ref: "p.y", Pool: "other"}, {Ref: "p.z", Timeout: -1},
		{Ref: "p.s", Parameters: json.RawMessage(`{"type":"string"}`)}, {Ref: "p.j", Parameters: json.RawMessage(`{`)},
		{Ref: "p.n", Parameters: json.RawMessage(`null`)}, {Ref: "p.t", Parameters: json.RawMessage(`{"type":["object",1]}`)},
	}})
	require.EqualError(t, err, strings.Join([]string{
		"registered action plain: the name must be two or more words of lower-case letters, digits and _, joined by dots",
		"registered action core.a: another action has that name",
		`registered action p.x: the runtime is "shell": only go actions can be registered`,
		`registered action p.y: the pool is "other": registered actions run in pool go`,
		"registered action p.z: times and max_retries must not be negative",
		"registered action p.s: parameters: type must be object, because an execution's parameters always are one",
		"registered action p.j: parameters: the value ends in the middle of its JSON",
		"registered action p.n: parameters must be a JSON Schema object",
		"registered action p.t: parameters: not a valid JSON Schema: /type/1: value must be one of " +
			"'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'; /type: value must be one of " +
			"'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'",
	}, "\n"))
}
