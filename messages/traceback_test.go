package messages_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func TestATracebackIsFoundInTheDetails(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 20_000) + "the cause"
	for name, c := range map[string]struct{ details, want string }{
		"python":        {`{"type":"KeyError","traceback":"Traceback…\nKeyError: 1"}`, "Traceback…\nKeyError: 1"},
		"node and go":   {`{"stack":"Error: no\n  at f"}`, "Error: no\n  at f"},
		"none":          {`{"type":"KeyError"}`, ""},
		"another shape": {`[1,2]`, ""},
		"another type":  {`{"traceback":["a"]}`, ""},
		"nothing":       {``, ""},
	} {
		require.Equal(t, c.want, messages.Traceback(json.RawMessage(c.details)), name)
	}
	raw, err := json.Marshal(map[string]string{"traceback": long})
	require.NoError(t, err)
	got := messages.Traceback(raw)
	require.True(t, strings.HasSuffix(got, "the cause"))
	require.Less(t, len(got), 9<<10)
}
