package node_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// wordy is a worker of the process runtime that answers with the frame that its parameters have, and with its own text before that.
const wordy = `#!/usr/bin/env python3
import os, struct, sys, json

def send(payload):
    data = struct.pack(">I", len(payload)) + payload
    while data:
        data = data[os.write(4, data):]

requests = os.fdopen(3, "rb", buffering=0)
while True:
    head = requests.read(4)
    if len(head) < 4:
        sys.exit(0)
    size, body = struct.unpack(">I", head)[0], b""
    while len(body) < size:
        body += requests.read(size - len(body))
    r = json.loads(body)
    id = str(r["id"]).encode()
    if r["command"] == "hello":
        send(b'{"event":"result","id":%s,"data":{"protocol":1,"capabilities":{}}}' % id)
    elif r["command"] == "execute":
        p = r["args"]["parameters"]
        print(p.get("key", ""), flush=True)
        for frame in p["frames"]:
            send(b'{"event":' + frame.replace("ID", '"id":' + id.decode()).encode("latin-1") + b"x" * p.get("more", 0))
    else:
        send(b'{"event":"result","id":%s,"data":{}}' % id)
`

// What a program says of its run is stored as its own, whatever it says, and the worker stays.
func TestWhatAProgramSaysIsItsRunsAlone(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, packOf(t, "w", "pools: [{name: lab, runtime: process, command: [./wordy.py], workers: 1}]\n", files{
		"wordy.py": wordy, "actions/say.yaml": "name: say\nruntime: process\npool: lab\nsecrets: [key]\n",
	}))
	before := k.ready("w.lab", 0, 0)
	const secret = "hunter2-hunter2"
	for name, c := range map[string]struct {
		frames []string
		more   int
		code   messages.Code
		says   string
	}{
		"a result":      {frames: []string{`"result",ID,"data":{"n":1e400}}`}},
		"NaN":           {frames: []string{`"result",ID,"data":{"a":[NaN]}}`}, code: messages.CodeResultNotJSON, says: "/a/0 is NaN"},
		"no UTF-8":      {frames: []string{`"result",ID,"data":{"a":"` + "\u00ff" + `"}}`}, code: messages.CodeResultNotJSON, says: "/a is not UTF-8"},
		"a long number": {frames: []string{`"result",ID,"data":[` + strings.Repeat("1", 5000) + `]}`}, code: messages.CodeResultNotJSON, says: "/0 is a number of 5000 digits"},
		"a name twice":  {frames: []string{`"result",ID,"data":{"a":1,"a":2}}`}, code: messages.CodeResultNotJSON, says: "/a is there twice"},
		"a bad chunk":   {frames: []string{`"chunk",ID,"data":[Infinity]}`, `"result",ID,"data":1}`}, code: messages.CodeResultNotJSON, says: "the chunk is not JSON: /0 is Infinity"},
		"too large":     {frames: []string{`"result",ID,"data":"`}, more: 17 << 20, code: messages.CodeResultTooLarge, says: "more than the 16777216 that a frame may have"},
		"a large error": {frames: []string{`"error",ID,"error":{"code":"mine","message":"m","details":"`}, more: 17 << 20, code: "mine", says: "m"},
		"poisoned":      {frames: []string{`"error",ID,"error":{"code":"poisoned","message":"m"}}`}, code: "action.poisoned", says: "m"},
		"cancelled":     {frames: []string{`"error",ID,"error":{"code":"cancelled","message":"m"}}`}, code: "action.cancelled", says: "m"},
		"no code":       {frames: []string{`"error",ID,"error":{"code":"disk full","message":"m"}}`}, code: messages.CodeActionError, says: "disk full: m"},
		"a secret":      {frames: []string{`"error",ID,"error":{"code":"` + secret + `","message":"at ` + secret + `","details":{"v":"` + secret + `"}}}`}, code: messages.CodeActionError, says: "[redacted]: at [redacted]"},
	} {
		e := k.run("w.say", object{"frames": c.frames, "more": c.more, "key": secret})
		if c.code == "" {
			require.Equal(t, `{"n":1e400}`, string(e.Result), name)
			continue
		}
		require.Equal(t, messages.Failed, e.Status, name)
		require.Equal(t, c.code, e.Error.Code, name)
		require.Contains(t, e.Error.Message, c.says, name)
		raw, err := json.Marshal(e.Error)
		require.NoError(t, err)
		require.NotContains(t, string(raw), secret, name)
		if c.code.Borrowed() {
			require.Equal(t, "exception", e.Error.Class)
		}
		out, err := k.Output(t.Context(), e.ID)
		require.NoError(t, err)
		require.Equal(t, "[redacted]\n", string(out.Stdout), name)
	}
	after := k.worker("w.lab", 0)
	require.Equal(t, before.Generation, after.Generation, "no answer has ended the worker")
	require.Equal(t, before.Pid, after.Pid)
}
