package process

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/mask"
)

// Secrets are removed from both streams, the events and the tail, also when they arrive in pieces.
func TestOutputIsMasked(t *testing.T) {
	t.Parallel()
	masks, err := mask.New([]string{"hunter2-hunter2"})
	require.NoError(t, err)
	g := newGuardian(t, Config{})
	p, events := run(t, g, Spec{Masks: masks, Argv: shell(
		`printf 'a hunter2-hun'; sleep 0.1; printf 'ter2 b hunter2-'; echo "is hunter2-hunter2" >&2; printf 'then hunter' >&2`)})
	exit, before := events.exit(t)
	require.Zero(t, exit.Code)
	written := ""
	for _, e := range before {
		if w, ok := e.(Wrote); ok && !w.Stderr {
			written += string(w.Data)
		}
	}
	require.Equal(t, "a [redacted] b [redacted]", written, "also what only began one when the program ended")
	out := p.TakeOutput()
	require.Equal(t, written, string(out.Stdout))
	require.Equal(t, "is [redacted]\nthen hunter", string(out.Stderr), "of less than its half nothing is hidden")
	require.Equal(t, string(out.Stderr), p.StderrTail())
}

// If a program answers in the middle of a secret, neither the part before the answer nor the part after it is shown.
func TestRepliesInTheMiddleOfASecret(t *testing.T) {
	t.Parallel()
	masks, err := mask.New([]string{"hunter2-hunter2"})
	require.NoError(t, err)
	writes := "import os\nparts = [b'a hunter2-h', b'unter2 b']\n" + strings.ReplaceAll(echoWorker,
		"    while reply:", "    os.write(1, parts.pop(0))\n    while reply:")
	p, events := run(t, newGuardian(t, Config{}), Spec{Masks: masks, Framed: true, Argv: python(writes)})
	for _, want := range []string{"a [redacted]", " b"} {
		_, err := p.Send("execute", nil)
		require.NoError(t, err)
		next[Reply](t, events)
		require.Equal(t, want, string(p.TakeOutput().Stdout))
	}
}

// The secrets of a run are masked beside those of the pool, wherever a write ends.
func TestSecretsOfARunAreMasked(t *testing.T) {
	t.Parallel()
	pool, err := mask.New([]string{"pool-secret"})
	require.NoError(t, err)
	of, err := mask.New([]string{"hunter2-hunter2"})
	require.NoError(t, err)
	writes := "import os\nparts = [b'pool-sec', b'ret hunter2-h', b'unter2 b hunter2-hunter2']\n" + strings.ReplaceAll(echoWorker,
		"    while reply:", "    os.write(1, parts.pop(0))\n    while reply:")
	p, events := run(t, newGuardian(t, Config{}), Spec{Masks: pool, Framed: true, Argv: python(writes)})
	p.Mask(of)
	for _, want := range []string{"[redacted]", " [redacted]", " b [redacted]"} {
		_, err := p.Send("execute", nil)
		require.NoError(t, err)
		next[Reply](t, events)
		require.Equal(t, want, string(p.TakeOutput().Stdout))
	}
	p, events = run(t, newGuardian(t, Config{}), Spec{Masks: pool, RunMasks: of, Argv: shell("printf hunter2-; printf 'hunter2 pool-secret'; printf hunter2-hunter2 >&2")})
	events.exit(t)
	out := p.TakeOutput()
	require.Equal(t, "[redacted] [redacted]", string(out.Stdout))
	require.Equal(t, "[redacted]", string(out.Stderr))
}

// A clipped text may end within a secret.
func TestClippedTextsAreMasked(t *testing.T) {
	t.Parallel()
	masks, err := mask.New([]string{"hunter2-hunter2"})
	require.NoError(t, err)
	reason := "a frame is not JSON: " + clip([]byte(strings.Repeat("x", clipMax-10)+"hunter2-hunter2"))
	require.Contains(t, reason, "hunter2-hu")
	require.Equal(t, Broken{Reason: "a frame is not JSON: \"" + strings.Repeat("x", clipMax-10) + "[redacted]\"…"}, masked(masks, Broken{Reason: reason}))
}

func TestEventsAreMasked(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	masks, err := mask.New([]string{secret})
	require.NoError(t, err)
	for _, e := range []Event{
		Reply{Err: &messages.Error{Code: "token." + secret}}, Fault{Err: &messages.Error{Code: secret}},
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

// An error is bounded as it comes in, and not before secrets are found in it: half of one would not be.
func TestAnErrorIsMaskedBeforeItIsCut(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	masks, err := mask.New([]string{secret})
	require.NoError(t, err)
	at := strings.Repeat("x", messages.ErrorMessageMax-10) + secret + strings.Repeat("y", 1<<20)
	name := strings.Repeat("T", messages.TypeMax-5) + secret
	payload, err := json.Marshal(map[string]any{"event": "error", "id": 1, "error": map[string]any{
		"code": strings.Repeat("é", 1<<20), "message": at, "type": name, "details": strings.Repeat("d", messages.ErrorDetailsMax),
	}})
	require.NoError(t, err)
	event, err := decodeEvent(payload)
	require.NoError(t, err)
	reply, failed := bounded(masked(masks, event)).(Reply)
	require.True(t, failed)
	raw, err := json.Marshal(reply.Err)
	require.NoError(t, err)
	require.Less(t, len(raw), messages.ErrorMessageMax+1024)
	require.NotContains(t, string(raw), secret[:5])
	require.Equal(t, messages.Code(strings.Repeat("é", messages.CodeMax/2)), reply.Err.Code)
	require.Equal(t, Reply{ID: 1, Result: json.RawMessage(`1`)}, bounded(Reply{ID: 1, Result: json.RawMessage(`1`)}))
}
