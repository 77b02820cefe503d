package submit

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// Hash tells whether two requests under one idempotency key are the same: then their hashes are equal. Who submits is no part of
// it. The store keeps hashes for as long as the executions, so what it is made of must not change.
func (r *Request) Hash() []byte {
	same := *r
	same.CreatedBy, same.Trace = "", ""
	same.Parameters = canonicalJSON(same.Parameters)
	raw, err := json.Marshal(same)
	if err != nil { // a request that came as JSON goes back to it
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return sum[:]
}

// canonicalJSON writes JSON with its keys sorted and its blanks gone, so that the same parameters hash alike. Integers stay as
// they are, to the last digit; a number with a fraction or an exponent is the float64 that it is read as, so that 1.0 is 1.
// What is not JSON is left alone.
func canonicalJSON(raw json.RawMessage) json.RawMessage {
	if !json.Valid(raw) {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return raw
	}
	if canonical, err := json.Marshal(canonicalNumbers(value)); err == nil {
		return canonical
	}
	return raw
}

func canonicalNumbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, of := range v {
			v[key] = canonicalNumbers(of)
		}
	case []any:
		for i, of := range v {
			v[i] = canonicalNumbers(of)
		}
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
	}
	return value
}

// RetryHash is the request of a retry by hand under an idempotency key: which execution it repeats.
func RetryHash(id messages.ExecutionID) []byte {
	sum := sha256.Sum256([]byte("retry " + id.String()))
	return sum[:]
}
