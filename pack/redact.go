package pack

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/troupe-run/troupe/messages"
)

// redacted replaces a secret.
const redacted = "[redacted]"

// Redact returns the parameters in a form that may be logged and shown. It replaces the value of every key that the
// action lists under secrets, at any depth. Parameters that cannot be read are replaced as a whole. Without secrets it
// returns the parameters unchanged.
func Redact(action *messages.Action, params json.RawMessage) json.RawMessage {
	if len(action.Secrets) == 0 || len(params) == 0 {
		return params
	}
	whole := json.RawMessage(`"` + redacted + `"`)
	if messages.CheckJSON(params) != nil {
		return whole
	}
	decoder := json.NewDecoder(bytes.NewReader(params))
	decoder.UseNumber() // keeps the digits of numbers
	var v any
	if err := decoder.Decode(&v); err != nil {
		return whole
	}
	clean, err := json.Marshal(redact(v, action.Secrets))
	if err != nil {
		return whole
	}
	return clean
}

// redact recurses at most messages.JSONDepthMax deep.
func redact(v any, secrets []string) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if slices.Contains(secrets, key) {
				v[key] = redacted
			} else {
				v[key] = redact(value, secrets)
			}
		}
	case []any:
		for i, value := range v {
			v[i] = redact(value, secrets)
		}
	}
	return v
}
