package submit

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// Every way in has one idea of what JSON is, and one code.
func TestParametersAreJSON(t *testing.T) {
	t.Parallel()
	for parameters, want := range map[string]string{
		`{"n":1e400,"m":-0.0}`: "", `{"a":[NaN]}`: "/parameters/a/0 is NaN", `{"a":1,"a":1}`: "/parameters/a is there twice",
		`{"a":"\ud800"}`: "/parameters/a has half of a surrogate pair", "{\"a\":\"\xff\"}": "/parameters/a is not UTF-8",
		`{"n":` + strings.Repeat("1", 1001) + `}`:                     "/parameters/n is a number of 1001 digits",
		`{"n":` + strings.Repeat("[", 100) + strings.Repeat("]", 100): "/parameters/n" + strings.Repeat("/0", 99) + " is nested deeper than 100 levels",
		`{"a":`: "/parameters/a ends in the middle", `{} {}`: "/parameters goes on after its JSON value",
	} {
		r := Request{ActionRef: "a", Parameters: json.RawMessage(parameters)}
		p := r.Check()
		if want == "" {
			require.Nil(t, p, parameters)
			continue
		}
		require.NotNil(t, p, parameters)
		require.Equal(t, messages.CodeInvalidJSON, p.Code)
		require.True(t, strings.HasPrefix(p.Message, want), p.Message)
		path, _, _ := strings.Cut(want, " ")
		require.Equal(t, map[string]any{"path": path}, p.Details)
	}
}
