package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// Two readers of one body must see the same: a key stands once in its object, and a field's name is its own to the letter.
func TestAmbiguousKeysAreRefused(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	many := func(last string) string {
		var keys strings.Builder
		for i := range 40 {
			fmt.Fprintf(&keys, `"k%d":%d,`, i, i)
		}
		return `{"action_ref":"a","parameters":{` + keys.String() + last + `:1}}`
	}
	for _, c := range []struct {
		body string
		code messages.Code
		text string
	}{
		{`{"action_ref":"a","action_ref":"b"}`, messages.CodeInvalidJSON, "/action_ref is there twice in one object"},
		{`{"action_ref":"a","action_re\u0066":"b"}`, messages.CodeInvalidJSON, "/action_ref is there twice"},
		{`{"action_ref":"a","labels":{"x":"1","x":"2"}}`, messages.CodeInvalidJSON, "/x is there twice"},
		{`{"action_ref":"a","parameters":{"x":1,"y":{"x":1},"x":2}}`, messages.CodeInvalidJSON, "/x is there twice"},
		{`{"action_ref":"a","parameters":{"x":[{"a":1},{"a":1,"b":[],"a":2}]}}`, messages.CodeInvalidJSON, "/a is there twice"},
		{`{"action_ref":"a","parameters":{"\"":1,"\u0022":2}}`, messages.CodeInvalidJSON, "/parameters/\" is there twice"},
		{many(`"k39"`), messages.CodeInvalidJSON, "/k39 is there twice"},
		{many(`"k3"`), messages.CodeInvalidJSON, "/k3 is there twice"},
		{`{"action_ref":"a","idempotency_key":"\ud800"}`, messages.CodeInvalidJSON, "/idempotency_key has half of a surrogate pair"},
		{`{"action_ref":"a","parameters":{"n":` + strings.Repeat("1", 1001) + `}}`, messages.CodeInvalidJSON, "/parameters/n is a number of 1001 digits"},
		{`{"action_ref":"a","parameters":{"s":["\udc00"]}}`, messages.CodeInvalidJSON, "/parameters/s/0 has half of a surrogate pair"},
		{`{"Action_Ref":"a"}`, messages.CodeUnknownField, `unknown field "Action_Ref"; write it as "action_ref"`},
		{`{"action_ref":"a","ACTION_REF":"b"}`, messages.CodeUnknownField, `write it as "action_ref"`},
		{`{"action_ref":"a","wait_Seconds":0}`, messages.CodeUnknownField, `write it as "wait_seconds"`},
		{`{"action_ref":"a","CreatedBy":"root"}`, messages.CodeUnknownField, `unknown field "CreatedBy"`},
		{`{"action_ref":"a","Request":{}}`, messages.CodeUnknownField, `unknown field "Request"`},
	} {
		refused(t, ask(t, h, "POST", executionsPath, c.body), http.StatusBadRequest, c.code, c.text)
	}
	require.Empty(t, b.requests)
	for _, body := range []string{
		many(`"k40"`),
		`{"action_ref":"a","parameters":{"x":1,"X":2,"y":[{"x":1},{"x":1}],"z":{"x":"\"x\":1,{"}},"labels":{"x":"x","X":"x"}}`,
	} {
		submitted(t, h, body)
	}
}

func TestARetrysKeysAreJudgedToo(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	id := submitted(t, h, `{"action_ref":"a"}`).ID.String()
	refused(t, ask(t, h, "POST", executionsPath+"/"+id+"/retry", `{"Idempotency_Key":"k"}`), 400, messages.CodeUnknownField, `write it as "idempotency_key"`)
	refused(t, ask(t, h, "POST", executionsPath+"/"+id+"/retry", `{"idempotency_key":"k","idempotency_key":"l"}`), 400, messages.CodeInvalidJSON, "twice")
}
