package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
)

// TestTheHashKeepsIntegersExact: two requests under one idempotency key are the same only if their integers are, to the last
// digit, however the rest is written.
func TestTheHashKeepsIntegersExact(t *testing.T) {
	t.Parallel()
	hash := func(parameters string) string {
		return string(requestHash(&api.SubmitRequest{ActionRef: "a.b", Parameters: []byte(parameters)}))
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
		"a number or a text": {`{"n":1}`, `{"n":"1"}`, false},
	} {
		require.Equal(t, c.same, hash(c.a) == hash(c.b), name)
	}
}
