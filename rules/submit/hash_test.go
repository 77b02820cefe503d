package submit

import (
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// TestTheHashKeepsIntegersExact: two requests under one idempotency key are the same only if their integers are, to the last
// digit, however the rest is written.
func TestTheHashKeepsIntegersExact(t *testing.T) {
	t.Parallel()
	hash := func(parameters string) string {
		return string((&Request{ActionRef: "a.b", Parameters: []byte(parameters)}).Hash())
	}
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"beyond 2^53":        {`{"n":9007199254740992}`, `{"n":9007199254740993}`, false},
		"negative":           {`{"n":-9007199254740992}`, `{"n":-9007199254740993}`, false},
		"of 40 digits":       {`[1234567890123456789012345678901234567890]`, `[1234567890123456789012345678901234567891]`, false},
		"deep":               {`{"a":[{"b":9007199254740992}]}`, `{"a":[{"b":9007199254740993}]}`, false},
		"the same":           {`{"n":9007199254740993}`, `{ "n" : 9007199254740993 }`, true},
		"order and blanks":   {`{"a":1,"b":[1,2]}`, `{ "b": [1, 2], "a": 1 }`, true},
		"a whole fraction":   {`{"n":1}`, `{"n":1.0}`, true},
		"an exponent":        {`{"n":1000}`, `{"n":1e3}`, true},
		"escapes":            {`{"s":"\u00e4"}`, `{"s":"ä"}`, true},
		"beyond any float":   {`{"n":1e400}`, `{"n":1e401}`, false},
		"beyond a float":     {`{"n":0.1}`, `{"n":0.1000000000000000055511151231257827}`, false},
		"integers as floats": {`{"n":9007199254740993.0}`, `{"n":9007199254740992.0}`, false},
		"underflow":          {`{"n":1e-9999}`, `{"n":0.0}`, false},
		"an odd exponent":    {`{"n":1e-99999999999999999999}`, `{"n":0.0}`, false},
		"one float":          {`{"n":1.50}`, `{"n":150e-2}`, true},
		"minus nothing":      {`{"n":-0.0}`, `{"n":0.0}`, false},
		"a number or a text": {`{"n":1}`, `{"n":"1"}`, false},
	} {
		require.Equal(t, c.same, hash(c.a) == hash(c.b), name)
	}
}

// Hashes are stored beside executions for as long as those are kept, so what makes them must stay as it was.
func TestHashesStayAsTheyWere(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"action_ref":"core.echo"}`: "e8a09ea841ed7c38995433e501a5010fc8b126c7d6312e5f1bd11a0ec177d5d4",
		`{"action_ref":"core.echo","idempotency_key":"k","parameters":{"b":1.0,"a":[12345678901234567890,1e3,"<ü>"]}}`: "bfc079eae07b493b20e514e2e37c16fca0e764628467cb7e9eae8b600dcf81ad",
		`{"action_ref":"mail.send","parameters":{},"session":"s","affinity":"strict_fail","priority":0,"run_at":"2030-01-31T09:00:00.5+01:00",
			"idempotency_key":"welcome-ada","timeout_seconds":90,"max_retries":0,"queue_deadline_seconds":1.5,"labels":{"z":"1","a":"2"}}`: "80d270aba5bd6c1576f705123715860dfb65b507d3bef24054eb6ea1677da95a",
		`{"action_ref":"core.echo","idempotency_key":"k","parameters":null}`:               "8f1dfb16f667527435b2e9dcc800239019e81e49ab7e03617b6b7b615a687b84",
		`{"action_ref":"core.echo","parameters":{"n":[0.5,0.1,-0.0,1e-7,1E+30,2.50,0.0]}}`: "ea13b9316bf70563886c86bbf5616fe51c7e624ed6edc13c8b5bad29375faec3",
	} {
		var r Request
		require.NoError(t, json.Unmarshal([]byte(body), &r))
		r.CreatedBy, r.Trace = "someone", "trace" // who submits is no part of it
		require.Equal(t, want, hex.EncodeToString(r.Hash()), body)
	}
	require.Equal(t, "413f14f9096169f729a145ca8b04a64e2be5a3c21dccb4f45b64ddce2479a4f2",
		hex.EncodeToString(RetryHash(messages.ExecutionID{1, 2, 3})))
}
