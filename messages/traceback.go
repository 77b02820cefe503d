package messages

import "encoding/json"

// tracebackMax bounds a traceback that is shown, in bytes; its end is kept, where the cause stands.
const tracebackMax = 8 << 10

// Traceback is where the code of the action failed, as its SDK tells it: Python's traceback, or the stack of Node.js and Go.
// Empty where the details hold none.
func Traceback(details json.RawMessage) string {
	var d struct{ Traceback, Stack string }
	if json.Unmarshal(details, &d) != nil { // an action may give details of any other shape
		return ""
	}
	text := d.Traceback
	if text == "" {
		text = d.Stack
	}
	if len(text) > tracebackMax {
		return "…" + text[len(text)-tracebackMax:]
	}
	return text
}
