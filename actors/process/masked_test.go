package process

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors/mask"
	"github.com/troupe-run/troupe/messages"
)

// What a program writes of its secrets is gone from both streams, the events and the tail, also where it comes in pieces.
func TestOutputIsMasked(t *testing.T) {
	t.Parallel()
	masks, err := mask.New([]string{"hunter2-hunter2"})
	require.NoError(t, err)
	g := newGuardian(t, Config{})
	p, events := run(t, g, Spec{Masks: masks, Argv: shell(
		`printf 'a hunter2-hun'; sleep 0.1; printf 'ter2 b hunter2'; echo "is hunter2-hunter2" >&2`)})
	exit, before := events.exit(t)
	require.Zero(t, exit.Code)
	written := ""
	for _, e := range before {
		if w, ok := e.(Wrote); ok && !w.Stderr {
			written += string(w.Data)
		}
	}
	require.Equal(t, "a [redacted] b hunter2", written, "and what only began one is there")
	out := p.TakeOutput()
	require.Equal(t, written, string(out.Stdout))
	require.Equal(t, "is [redacted]\n", string(out.Stderr))
	require.Equal(t, "is [redacted]\n", p.StderrTail())
}

func TestEventsAreMasked(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	masks, err := mask.New([]string{secret})
	require.NoError(t, err)
	for _, e := range []Event{
		Reply{Err: &messages.Error{Message: "at " + secret, Type: secret, Stderr: secret, Details: json.RawMessage(`{"traceback":"` + secret + `"}`)}},
		Progress{Message: secret}, Log{Message: secret}, Broken{Reason: "a frame is not JSON: " + secret},
	} {
		raw, err := json.Marshal(masked(masks, e))
		require.NoError(t, err)
		require.NotContains(t, string(raw), secret)
		require.Contains(t, string(raw), mask.Mark)
		require.Equal(t, e, masked(nil, e))
	}
	result := Reply{Result: json.RawMessage(`"` + secret + `"`)}
	require.Equal(t, result, masked(masks, result), "what the code answers is its own")
}
