package pack

import (
	"bytes"
	"encoding/json"
	"maps"
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

// SecretValues returns the texts and numbers among the parameters that the action lists under secrets, at any depth.
func SecretValues(action *messages.Action, params json.RawMessage) []string {
	if len(action.Secrets) == 0 || len(params) == 0 || messages.CheckJSON(params) != nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(params))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return nil
	}
	return secretValues(v, action.Secrets, false, nil)
}

func secretValues(v any, secrets []string, secret bool, into []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			into = secretValues(v[key], secrets, secret || slices.Contains(secrets, key), into)
		}
	case []any:
		for _, value := range v {
			into = secretValues(value, secrets, secret, into)
		}
	case string:
		if secret {
			into = append(into, v)
		}
	case json.Number:
		if secret {
			into = append(into, v.String())
		}
	}
	return into
}
